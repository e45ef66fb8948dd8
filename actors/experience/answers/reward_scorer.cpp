#include "actors/experience/answers/reward_scorer.h"

#include <cmath>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr double kLargestScore = 1e6;  // as of verifiers

}  // namespace

std::vector<Score> RewardScorer::score(const Prompt& /*prompt*/, std::span<const std::string> answers) {
  TROUPE_CHECK(false, "answers without tokens", answers.size());
  return {};
}

std::vector<Score> RewardScorer::score_tokens(const Prompt& prompt, std::span<const std::string> answers,
                                              AnswerTokens tokens) {
  std::vector<Score> scores = task_->score(prompt, answers);
  add_model(prompt, tokens, scores);
  return scores;
}

std::vector<Score> RewardScorer::score_tokens_each(std::span<const Prompt> prompts,
                                                   std::span<const std::string> answers, AnswerTokens tokens) {
  std::vector<Score> scores = task_->score_each(prompts, answers);
  for (size_t i = 0; i < scores.size(); ++i)
    add_model(prompts[i], tokens.subspan(i, 1), std::span(scores).subspan(i, 1));
  return scores;
}

// An answer without a score of the task stays without one.
void RewardScorer::add_model(const Prompt& prompt, AnswerTokens tokens, std::span<Score> scores) {
  TROUPE_CHECK(scores.size() == tokens.size(), scores.size(), tokens.size());
  const std::vector<float> of_model = model_->score(tokens_->encode(prompt), tokens);
  for (size_t i = 0; i < scores.size(); ++i) {
    Score& score = scores[i];
    if (score.scored != Scored::yes) continue;
    const double value = of_model[i];
    if (!(std::abs(value) <= kLargestScore)) {
      score = {.scored = Scored::failed,
               .problem = "the reward model gave the score " + std::to_string(value) +
                          ", expected a number of at most 1000000 in magnitude"};
      continue;
    }
    std::erase_if(score.parts,
                  [](const auto& part) { return part.first == kTaskPart || part.first == kRewardModelPart; });
    score.parts.insert(score.parts.begin(), {{kTaskPart, score.reward}, {kRewardModelPart, value}});
    score.reward = task_weight_ * score.reward + weight_ * value;
  }
}

}  // namespace troupe
