#pragma once
// PythonGrader: the Grader that has answers scored by a function in Python (task.verifier), or replied to (task.reply),
// in a process of its own. It waits for that process. One thread but for figures() and abandon().

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/config/run_config.h"
#include "actors/experience/answers/token_run.h"
#include "actors/experience/common/grader.h"
#include "runtime/base/mutex.h"
#include "tasks/verifier.h"

namespace troupe {

class PythonGrader final : public Grader {
 public:
  // `turns`: answers may have several, and the function gets those before the last one.
  // `tokens`, of a run whose answers may have several, reads the messages; null: they are not checked.
  explicit PythonGrader(VerifierTarget target, bool turns = false, std::shared_ptr<const TokenRun> tokens = nullptr)
      : answers_per_call_(static_cast<size_t>(target.answers_per_call)),
        turns_(turns),
        tokens_(std::move(tokens)),
        verifier_(std::move(target)) {}

  std::vector<Score> score(const Prompt& prompt, std::span<const std::string> answers) override;
  std::vector<Score> score_each(PromptOfEach prompts, std::span<const std::string> answers) override;
  std::vector<Score> score_detailed(const Prompt& prompt, std::span<const std::string> answers,
                                    DetailsOfEach details) override;
  std::vector<Score> score_detailed_each(PromptOfEach prompts, std::span<const std::string> answers,
                                         DetailsOfEach details) override;
  std::vector<Reply> reply(PromptOfEach prompts, std::span<const std::string> answers, DetailsOfEach details) override;
  size_t answers_per_call(ScoreKind /*kind*/) const override { return answers_per_call_; }
  void abandon() override { verifier_.abandon(); }
  VerifierFigures figures() const override;

 private:
  void publish_figures();
  std::vector<VerifierItem> items_of(PromptOfEach prompts, std::span<const std::string> answers,
                                     DetailsOfEach details) const;

  const size_t answers_per_call_;
  const bool turns_;
  const std::shared_ptr<const TokenRun> tokens_;
  Verifier verifier_;
  mutable Mutex mutex_;
  VerifierFigures figures_ TROUPE_GUARDED_BY(mutex_);
};

// That some of these demonstrations are not right, for a warning; empty if all are, or have no score.
std::string problem_of_demonstrations(std::span<const VerifierItem> items, std::span<const Verdict> verdicts);

// Throws ConfigError "task.reply: ...", "task.name: ..." or "task.python: ..." if what replies to answers, where that
// is in Python, cannot be loaded, does not reply to two answers to a held-out prompt, or with a message that the model
// cannot read. Does nothing in runs without such replies. Blocks.
void try_reply(const RunConfig& config, const TokenRun& run);

// Throws ConfigError "task.verifier: ...", "task.python: ..." or, for a line of a dataset, "FILE:LINE: ..." if the
// verifier of the config cannot be loaded, needs a column that a prompt lacks, or does not score the demonstration of a
// held-out prompt, if that has one. Warns of demonstrations that are not right, if there is a warm-up. Does nothing
// without a verifier. Blocks.
void try_verifier(const RunConfig& config, const Task& task);

}  // namespace troupe
