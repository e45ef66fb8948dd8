#pragma once
// PythonScorer: the Scorer that has answers scored by a function in Python (task.verifier), in a process of its own. It
// waits for that process. One thread but for figures() and abandon().

#include <span>
#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "actors/experience/common/scorer.h"
#include "runtime/base/mutex.h"
#include "tasks/verifier.h"

namespace troupe {

class PythonScorer final : public Scorer {
 public:
  explicit PythonScorer(VerifierTarget target)
      : answers_per_call_(static_cast<size_t>(target.answers_per_call)), verifier_(std::move(target)) {}

  std::vector<Score> score(const Prompt& prompt, std::span<const std::string> answers) override;
  std::vector<Score> score_each(PromptOfEach prompts, std::span<const std::string> answers) override;
  size_t answers_per_call() const override { return answers_per_call_; }
  void abandon() override { verifier_.abandon(); }
  VerifierFigures figures() const override;

 private:
  void publish_figures();

  const size_t answers_per_call_;
  Verifier verifier_;
  mutable Mutex mutex_;
  VerifierFigures figures_ TROUPE_GUARDED_BY(mutex_);
};

// That some of these demonstrations are not right, for a warning; empty if all are, or have no score.
std::string problem_of_demonstrations(std::span<const VerifierItem> items, std::span<const Verdict> verdicts);

// Throws ConfigError "task.verifier: ...", "task.python: ..." or, for a line of a dataset, "FILE:LINE: ..." if the
// verifier of the config cannot be loaded, needs a column that a prompt lacks, or does not score the demonstration of a
// held-out prompt, if that has one. Warns of demonstrations that are not right, if there is a warm-up. Does nothing
// without a verifier. Blocks.
void try_verifier(const RunConfig& config, const Task& task);

}  // namespace troupe
