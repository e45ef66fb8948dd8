#pragma once
// TaskScorer: the Scorer that checks answers with the code of the task. One thread.

#include <memory>
#include <utility>

#include "actors/experience/answers/token_run.h"
#include "actors/experience/common/scorer.h"

namespace troupe {

class TaskScorer final : public Scorer {
 public:
  explicit TaskScorer(std::shared_ptr<const TokenRun> tokens) : tokens_(std::move(tokens)) {}

  std::vector<Score> score(const Prompt& prompt, std::span<const std::string> answers) override {
    std::vector<Score> scores;
    for (const std::string& answer : answers) scores.push_back(tokens_->task->score(prompt, answer));
    return scores;
  }

 private:
  std::shared_ptr<const TokenRun> tokens_;
};

}  // namespace troupe
