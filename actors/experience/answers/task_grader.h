#pragma once
// TaskGrader: the Grader that checks answers, and replies to them, with the code of the task. One thread.

#include <memory>
#include <utility>

#include "actors/experience/answers/token_run.h"
#include "actors/experience/common/grader.h"

namespace troupe {

class TaskGrader final : public Grader {
 public:
  explicit TaskGrader(std::shared_ptr<const TokenRun> tokens) : tokens_(std::move(tokens)) {}

  std::vector<Score> score(const Prompt& prompt, std::span<const std::string> answers) override {
    std::vector<Score> scores;
    for (const std::string& answer : answers) scores.push_back(tokens_->task->score(prompt, answer));
    return scores;
  }

  std::vector<Reply> reply(PromptOfEach prompts, std::span<const std::string> answers, DetailsOfEach details) override {
    std::vector<Reply> replies;
    for (size_t i = 0; i < answers.size(); ++i) {
      std::vector<Turn> turns = details[i].earlier;
      turns.push_back({answers[i]});
      replies.push_back({.message = tokens_->task->reply(*prompts[i], turns)});
    }
    return replies;
  }

 private:
  std::shared_ptr<const TokenRun> tokens_;
};

}  // namespace troupe
