#include "actors/experience/answers/answer_counts.h"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

// Of an answer: a message comes before each turn but the first.
uint64_t turns_of(const Answers& answers, int64_t answer) {
  if (answers.messages.lengths.empty()) return 1;
  const auto offsets = answers.sampled.offsets.view<int64_t>();
  const auto lengths = answers.messages.lengths.view<int32_t>();
  const auto begin = lengths.begin() + offsets[static_cast<size_t>(answer)],
             end = lengths.begin() + offsets[static_cast<size_t>(answer) + 1];
  return 1 + static_cast<uint64_t>(std::count_if(begin, end, [](int32_t length) { return length > 0; }));
}

// Of the answers from `first` to the one before `last`.
SampleTokens counts(const Answers& answers, int64_t first, int64_t last) {
  if (first == last) return {};
  const auto offsets = answers.sampled.offsets.view<int64_t>();
  const auto finish = answers.sampled.finish.view<uint8_t>();
  const auto cut = std::count(finish.begin() + first, finish.begin() + last, static_cast<uint8_t>(Finish::length));
  SampleTokens result{
      .samples = static_cast<uint64_t>(last - first),
      .tokens = static_cast<uint64_t>(offsets[static_cast<size_t>(last)] - offsets[static_cast<size_t>(first)]),
      .cut = static_cast<uint64_t>(cut)};
  for (int64_t answer = first; answer < last; ++answer) {
    const uint64_t turns = turns_of(answers, answer);
    result.turns += turns;
    result.most_turns = std::max(result.most_turns, turns);
  }
  return result;
}

// The first answer of the unit, and the one after its last.
std::pair<int64_t, int64_t> answers_of(const Answers& answers, const RolloutUnit& unit) {
  const auto group = answers.group.view<int32_t>();
  const auto [first, last] = std::ranges::equal_range(group, unit.index);
  return {first - group.begin(), last - group.begin()};
}

}  // namespace

SampleTokens count_answers(const Rollout& rollout, const RolloutUnit* unit) {
  const Answers& answers = rollout.answers();
  if (unit == nullptr) return counts(answers, 0, answers.count());
  const auto [first, last] = answers_of(answers, *unit);
  return counts(answers, first, last);
}

TokenSplit split_answers(const Rollout& rollout, const RolloutUnit& unit, uint64_t least) {
  const Answers& answers = rollout.answers();
  const auto [first, last] = answers_of(answers, unit);
  if (unit.oldest >= least) return {.trained = counts(answers, first, last), .dropped = {}};
  const auto offsets = answers.sampled.offsets.view<int64_t>(), version = answers.sampled.version.view<int64_t>();
  TokenSplit result;
  for (int64_t a = first; a < last; ++a) {
    const SampleTokens answer = counts(answers, a, a + 1);
    const auto masked = static_cast<uint64_t>(std::count_if(
        version.begin() + offsets[static_cast<size_t>(a)], version.begin() + offsets[static_cast<size_t>(a) + 1],
        [&](int64_t token) { return static_cast<uint64_t>(token) < least; }));
    const bool trained = masked < answer.tokens;
    (trained ? result.trained : result.dropped) += answer;
    if (trained) result.masked += masked;
  }
  return result;
}

bool without_spread(const Rollout& rollout) {
  const auto rewards = rollout.answers().rewards.view<float>();
  return std::ranges::all_of(rewards, [&](float reward) { return reward == rewards.front(); });
}

}  // namespace troupe
