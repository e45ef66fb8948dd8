#include "actors/experience/answers/reward_grader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr double kLargestScore = 1e6;  // as of verifiers

std::string text_of(float value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

bool same(const Prompt* a, const Prompt* b) { return a == b || a->text == b->text; }

}  // namespace

std::string problem_of_parts(const Score& score) {
  const auto taken = std::ranges::find_if(
      score.parts, [](const auto& part) { return part.first == kTaskPart || part.first == kRewardModelPart; });
  if (taken == score.parts.end()) return "";
  return "the verifier names a part of its score \"" + taken->first +
         "\", as the run does with a reward model; give it another name";
}

std::vector<Score> RewardGrader::score(const Prompt& /*prompt*/, std::span<const std::string> answers) {
  TROUPE_CHECK(false, "answers without tokens", answers.size());
  return {};
}

std::vector<Score> RewardGrader::score_detailed(const Prompt& prompt, std::span<const std::string> answers,
                                                DetailsOfEach details) {
  std::vector<Score> scores = task_->score_detailed(prompt, answers, details);
  add_model(prompt, details, scores);
  return scores;
}

std::vector<Score> RewardGrader::score_detailed_each(PromptOfEach prompts, std::span<const std::string> answers,
                                                     DetailsOfEach details) {
  std::vector<Score> scores = task_->score_detailed_each(prompts, answers, details);
  // The model reads a prompt once for all answers to it.
  for (size_t begin = 0, end = 0; begin < scores.size(); begin = end) {
    while (end < scores.size() && same(prompts[end], prompts[begin])) ++end;
    add_model(*prompts[begin], details.subspan(begin, end - begin), std::span(scores).subspan(begin, end - begin));
  }
  return scores;
}

void RewardGrader::add_model(const Prompt& prompt, DetailsOfEach details, std::span<Score> scores) {
  std::vector<std::vector<int32_t>> tokens;
  for (const AnswerDetails& of : details) tokens.push_back(of.tokens);
  add_model_scores(config_, model_->score(tokens_->encode(prompt), tokens), scores);
}

void add_model_scores(const RunConfig& config, std::span<const float> of_model, std::span<Score> scores) {
  TROUPE_CHECK(scores.size() == of_model.size(), scores.size(), of_model.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    Score& score = scores[i];
    if (score.scored != Scored::yes) continue;
    const double value = of_model[i];
    std::string problem = problem_of_parts(score);
    if (!(std::abs(value) <= kLargestScore))
      problem = "the reward model gave the score " + text_of(of_model[i]) +
                ", expected a number of at most 1000000 in magnitude";
    if (!problem.empty()) {
      score = {.scored = Scored::failed, .problem = std::move(problem)};
      continue;
    }
    score.parts.insert(score.parts.begin(), {{kTaskPart, score.reward}, {kRewardModelPart, value}});
    score.reward = config.task.weight * score.reward + config.reward_model.weight * value;
    for (double& reward : score.turns) reward *= config.task.weight;
  }
}

}  // namespace troupe
