#include "actors/experience/answers/answer_counts.h"

#include <algorithm>

namespace troupe {

namespace {

// Of the answers from `first` to the one before `last`.
SampleTokens counts(const Answers& answers, int64_t first, int64_t last) {
  if (first == last) return {};
  const auto offsets = answers.sampled.offsets.view<int64_t>();
  const auto finish = answers.sampled.finish.view<uint8_t>();
  const auto cut = std::count(finish.begin() + first, finish.begin() + last, static_cast<uint8_t>(Finish::length));
  return {static_cast<uint64_t>(last - first),
          static_cast<uint64_t>(offsets[static_cast<size_t>(last)] - offsets[static_cast<size_t>(first)]),
          static_cast<uint64_t>(cut)};
}

}  // namespace

SampleTokens count_answers(const Rollout& rollout, const RolloutUnit* unit) {
  const Answers& answers = rollout.answers();
  if (unit == nullptr) return counts(answers, 0, answers.count());
  const auto group = answers.group.view<int32_t>();
  const auto [first, last] = std::ranges::equal_range(group, unit->index);
  return counts(answers, first - group.begin(), last - group.begin());
}

bool without_spread(const Rollout& rollout) {
  const auto rewards = rollout.answers().rewards.view<float>();
  return std::ranges::all_of(rewards, [&](float reward) { return reward == rewards.front(); });
}

}  // namespace troupe
