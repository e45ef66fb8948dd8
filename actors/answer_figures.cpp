#include "actors/answer_figures.h"

#include <algorithm>

namespace troupe {

void count_answers(const Rollout& rollout, const RolloutUnit& unit, uint64_t& answers, uint64_t& tokens) {
  if (rollout.answers.empty()) return;
  answers += unit.samples;
  const auto [first, last] = std::ranges::equal_range(rollout.answers.group.view<int32_t>(), unit.index);
  const auto offsets = rollout.answers.offsets.view<int64_t>();
  const auto begin = rollout.answers.group.view<int32_t>().begin();
  tokens +=
      static_cast<uint64_t>(offsets[static_cast<size_t>(last - begin)] - offsets[static_cast<size_t>(first - begin)]);
}

void count_produced(const Rollout& rollout, AnswerFigures& figures) {
  if (rollout.answers.empty()) return;
  const auto finish = rollout.answers.finish.view<uint8_t>();
  figures.produced += rollout.samples;
  figures.produced_tokens += static_cast<uint64_t>(rollout.answers.tokens.size());
  figures.cut += static_cast<uint64_t>(std::ranges::count(finish, static_cast<uint8_t>(Finish::length)));
}

bool without_spread(const Rollout& rollout) {
  if (rollout.answers.empty()) return false;
  const auto rewards = rollout.answers.rewards.view<float>();
  return std::ranges::all_of(rewards, [&](float reward) { return reward == rewards.front(); });
}

}  // namespace troupe
