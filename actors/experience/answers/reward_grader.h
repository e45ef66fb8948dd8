#pragma once
// RewardGrader: the Grader that adds the score of a reward model to that of the task or its verifier, each times its
// weight. One thread, beside others that use the same model.

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/experience/answers/token_run.h"
#include "actors/experience/common/grader.h"
#include "models/lm/reward_model.h"

namespace troupe {

// Names of the parts of a reward, which no part of a verifier may have.
inline constexpr const char* kTaskPart = "task";
inline constexpr const char* kRewardModelPart = "reward_model";

// Why the parts of a verifier's score cannot be reported beside those two; empty if they can.
std::string problem_of_parts(const Score& score);

// Adds the scores of the reward model, one for each answer, to those of the task or its verifier, each times its
// weight. An answer without a score of the task stays without one; it has failed if the model's is not finite or too
// large.
void add_model_scores(const RunConfig& config, std::span<const float> of_model, std::span<Score> scores);

class RewardGrader final : public Grader {
 public:
  // `task` gives the other score, and says which answers are right.
  RewardGrader(const RunConfig& config, std::shared_ptr<const TokenRun> tokens, std::shared_ptr<Grader> task,
               std::shared_ptr<RewardModel> model)
      : config_(config), tokens_(std::move(tokens)), task_(std::move(task)), model_(std::move(model)) {}

  // Throws InvariantError: the model reads tokens.
  std::vector<Score> score(const Prompt& prompt, std::span<const std::string> answers) override;
  std::vector<Score> score_detailed(const Prompt& prompt, std::span<const std::string> answers,
                                    DetailsOfEach details) override;
  std::vector<Score> score_detailed_each(PromptOfEach prompts, std::span<const std::string> answers,
                                         DetailsOfEach details) override;
  std::vector<Reply> reply(PromptOfEach prompts, std::span<const std::string> answers, DetailsOfEach details) override {
    return task_->reply(prompts, answers, details);
  }
  size_t answers_per_call(ScoreKind kind) const override { return task_->answers_per_call(kind); }
  void abandon() override { task_->abandon(); }
  VerifierFigures figures() const override { return task_->figures(); }

 private:
  void add_model(const Prompt& prompt, DetailsOfEach details, std::span<Score> scores);

  RunConfig config_;
  std::shared_ptr<const TokenRun> tokens_;
  std::shared_ptr<Grader> task_;
  std::shared_ptr<RewardModel> model_;
};

}  // namespace troupe
