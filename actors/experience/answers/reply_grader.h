#pragma once
// ReplyGrader: the Grader that has answers scored by one grader and replied to by another. One thread but for figures()
// and abandon().

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/experience/common/grader.h"

namespace troupe {

class ReplyGrader final : public Grader {
 public:
  ReplyGrader(std::shared_ptr<Grader> scores, std::shared_ptr<Grader> replies)
      : scores_(std::move(scores)), replies_(std::move(replies)) {}

  std::vector<Score> score(const Prompt& prompt, std::span<const std::string> answers) override {
    return scores_->score(prompt, answers);
  }
  std::vector<Score> score_detailed(const Prompt& prompt, std::span<const std::string> answers,
                                    DetailsOfEach details) override {
    return scores_->score_detailed(prompt, answers, details);
  }
  std::vector<Score> score_detailed_each(PromptOfEach prompts, std::span<const std::string> answers,
                                         DetailsOfEach details) override {
    return scores_->score_detailed_each(prompts, answers, details);
  }
  std::vector<Reply> reply(PromptOfEach prompts, std::span<const std::string> answers, DetailsOfEach details) override {
    return replies_->reply(prompts, answers, details);
  }
  size_t answers_per_call(ScoreKind kind) const override {
    return (kind == ScoreKind::replies ? replies_ : scores_)->answers_per_call(kind);
  }
  void abandon() override {
    scores_->abandon();
    replies_->abandon();
  }
  VerifierFigures figures() const override {
    VerifierFigures sum = scores_->figures();
    sum += replies_->figures();
    return sum;
  }

 private:
  std::shared_ptr<Grader> scores_, replies_;
};

}  // namespace troupe
