#include "actors/experience/answers/answer_rollout.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "models/experience/episode_tasks.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

using Ranges = std::vector<std::pair<int64_t, int64_t>>;  // begin and end

Array joined(const Array& array, const Ranges& ranges) {
  int64_t count = 0;
  for (const auto& [begin, end] : ranges) count += end - begin;
  Array result = Array::uninitialized(array.dtype(), {count});
  std::byte* to = result.mutable_data();
  for (const auto& [begin, end] : ranges) {
    const Array part = array.slice(begin, end);
    to = std::copy_n(part.data(), part.bytes(), to);
  }
  return result;
}

// Where the tokens of the answers with these numbers are.
Ranges token_ranges(const AnswerReply& all, const std::vector<size_t>& numbers) {
  const auto offsets = all.offsets.view<int64_t>();
  Ranges ranges;
  for (const size_t a : numbers) ranges.emplace_back(offsets[a], offsets[a + 1]);
  return ranges;
}

// The answers with these numbers, which ascend.
AnswerReply chosen(const AnswerReply& all, const std::vector<size_t>& numbers) {
  const auto offsets = all.offsets.view<int64_t>();
  if (numbers.size() + 1 == offsets.size()) return all;
  const Ranges tokens = token_ranges(all, numbers);
  Ranges answers;
  std::vector<int64_t> kept_offsets{0};
  for (const size_t a : numbers) {
    answers.emplace_back(a, a + 1);
    kept_offsets.push_back(kept_offsets.back() + offsets[a + 1] - offsets[a]);
  }
  AnswerReply result = all;
  result.offsets = Array::of(kept_offsets);
  AnswerReply::per_token(result, [&](const char*, Array& array, DType) { array = joined(array, tokens); });
  AnswerReply::per_answer(result, [&](const char*, Array& array, DType) { array = joined(array, answers); });
  return result;
}

// The messages of the answers with these numbers, which ascend.
MessageTokens chosen_messages(const AnsweredGroup& group, const std::vector<size_t>& numbers) {
  const MessageTokens& all = group.messages;
  if (all.lengths.empty()) return all;
  const auto lengths = all.lengths.view<int32_t>();
  std::vector<int64_t> begins{0};
  for (const int32_t length : lengths) begins.push_back(begins.back() + length);
  const Ranges tokens = token_ranges(group.answers, numbers);
  Ranges ids;
  for (const auto& [begin, end] : tokens)
    ids.emplace_back(begins[static_cast<size_t>(begin)], begins[static_cast<size_t>(end)]);
  return {joined(all.ids, ids), joined(all.lengths, tokens)};
}

// Each part that one of the chosen scores has, in the order in which they first occur.
std::vector<ReturnPart> parts_of(const std::vector<Score>& scores, const std::vector<size_t>& numbers) {
  std::vector<std::pair<std::string, std::vector<float>>> parts;
  for (size_t i = 0; i < numbers.size(); ++i)
    for (const auto& [name, value] : scores[numbers[i]].parts) {
      auto part = std::ranges::find(parts, name, &decltype(parts)::value_type::first);
      if (part == parts.end() && parts.size() == kMostReturnParts) continue;
      if (part == parts.end()) part = parts.emplace(part, name, std::vector<float>(numbers.size(), std::nanf("")));
      part->second[i] = static_cast<float>(value);
    }
  std::vector<ReturnPart> result;
  for (const auto& [name, values] : parts) result.push_back({name, Array::of(values)});
  return result;
}

// The answers to train on.
std::vector<size_t> usable_answers(size_t sampled, size_t fewest, bool baseline, const std::vector<Score>& scores) {
  std::vector<size_t> kept;
  for (size_t a = 0; a < sampled && baseline; ++a)
    if (scores[a].scored == Scored::yes) kept.push_back(a);
  if (kept.size() < std::min(fewest, sampled)) kept.clear();
  return kept;
}

Episodes episodes_of(const AnswerReply& answers, const std::vector<Score>& scores, const std::vector<size_t>& kept) {
  const auto offsets = answers.offsets.view<int64_t>();
  std::vector<float> rewards;
  std::vector<uint8_t> right;
  std::vector<int32_t> lengths;
  for (size_t i = 0; i < kept.size(); ++i) {
    const Score& score = scores[kept[i]];
    rewards.push_back(static_cast<float>(score.reward));
    right.push_back(score.right ? 1 : 0);
    lengths.push_back(static_cast<int32_t>(offsets[i + 1] - offsets[i]));
  }
  return {Array::of(rewards), Array::of(lengths), Array::of(right), parts_of(scores, kept)};
}

}  // namespace

std::shared_ptr<Rollout> rollout_of(const RunConfig& config, size_t fewest, const AnsweredGroup& group,
                                    const std::vector<Score>& scores) {
  const auto asked = static_cast<size_t>(group.answers.count());
  TROUPE_CHECK(scores.size() == asked, scores.size(), asked);
  const auto sampled = static_cast<size_t>(config.generation.answers);  // the next one, if there is one, is greedy
  const Score* const greedy = asked > sampled ? &scores[sampled] : nullptr;
  const bool baseline = greedy == nullptr || greedy->scored == Scored::yes;  // without it a group is not usable
  const std::vector<size_t> kept = usable_answers(sampled, fewest, baseline, scores);
  const AnswerReply answers = chosen(group.answers, kept);
  // Replay finds the credit of a rollout by its versions, also when no answer is left.
  const auto version = (kept.empty() ? group.answers : answers).version.view<int64_t>();
  const auto chosen_tokens = [&](const Array& all) {
    return all.empty() ? Array() : joined(all, token_ranges(group.answers, kept));
  };
  auto rollout = std::make_shared<Rollout>();
  rollout->epoch = group.epoch;
  rollout->oldest = static_cast<uint64_t>(std::ranges::min(version));
  rollout->newest = static_cast<uint64_t>(std::ranges::max(version));
  rollout->samples = kept.size();
  rollout->verifier_failed = static_cast<uint64_t>(std::ranges::count(scores, Scored::failed, &Score::scored));
  rollout->baselines = greedy != nullptr && baseline ? 1 : 0;
  rollout->unscored = asked - kept.size() - rollout->verifier_failed - rollout->baselines;
  rollout->env_steps = asked;
  rollout->episodes = episodes_of(answers, scores, kept);
  add_tasks(rollout->episodes, std::vector<std::string>(kept.size(), group.source));
  rollout->body = Answers{
      .prompts = group.prompt,
      .prompt_offsets = Array::of(std::vector<int64_t>{0, group.prompt.size()}),
      .sampled = answers,
      .group = Array(DType::i32, {static_cast<int64_t>(kept.size())}),
      .rewards = rollout->episodes.returns,
      .right = rollout->episodes.success,
      .baselines = greedy == nullptr ? Array()
                                     : Array::of(std::vector<float>{static_cast<float>(baseline ? greedy->reward : 0)}),
      .reference = chosen_tokens(group.reference),
      .messages = chosen_messages(group, kept),
      .turn_rewards = chosen_tokens(group.turn_rewards)};
  return rollout;
}

}  // namespace troupe
