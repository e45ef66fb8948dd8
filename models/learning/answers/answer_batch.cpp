#include "models/learning/answers/answer_batch.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "runtime/base/errors.h"

namespace troupe {
namespace {

template <class T>
void append(std::vector<T>& to, const Array& from, int64_t begin, int64_t end) {
  const std::span<const T> view = from.view<T>();
  to.insert(to.end(), view.begin() + begin, view.begin() + end);
}

// The messages between these tokens of the rollout.
void append_messages(AnswerBatch& batch, const MessageTokens& from, int64_t from_token, int64_t to_token) {
  if (from.lengths.empty()) return;
  const auto all = from.lengths.view<int32_t>();
  const auto sum = [](std::span<const int32_t> some) { return std::accumulate(some.begin(), some.end(), int64_t{0}); };
  const auto lengths = all.subspan(static_cast<size_t>(from_token), static_cast<size_t>(to_token - from_token));
  const auto first = static_cast<size_t>(sum(all.first(static_cast<size_t>(from_token))));
  batch.add_messages(from.ids.view<int32_t>().subspan(first, static_cast<size_t>(sum(lengths))), lengths);
}

// The message directly before this token.
void append_message(const AnswerBatch& batch, int64_t token, std::vector<int32_t>& ids) {
  if (batch.message_offsets.empty()) return;
  const auto at = static_cast<size_t>(token);
  ids.insert(ids.end(), batch.messages.begin() + batch.message_offsets[at],
             batch.messages.begin() + batch.message_offsets[at + 1]);
}

void append_group(AnswerBatch& batch, const Answers& from, int64_t group) {
  const auto prompt_offsets = from.prompt_offsets.view<int64_t>(), offsets = from.sampled.offsets.view<int64_t>();
  const auto groups = from.group.view<int32_t>();
  const auto [first, last] = std::ranges::equal_range(groups, static_cast<int32_t>(group));
  TROUPE_CHECK(group < from.groups() && first != last, "group", group, "groups", from.groups());
  const auto begin = first - groups.begin(), end = last - groups.begin();
  append(batch.prompts, from.prompts, prompt_offsets[static_cast<size_t>(group)],
         prompt_offsets[static_cast<size_t>(group) + 1]);
  batch.prompt_offsets.push_back(static_cast<int64_t>(batch.prompts.size()));
  append(batch.rewards, from.rewards, begin, end);
  if (!from.baselines.empty()) append(batch.baselines, from.baselines, group, group + 1);
  const auto finish = from.sampled.finish.view<uint8_t>();
  for (auto i = begin; i < end; ++i)
    batch.cut.push_back(finish[static_cast<size_t>(i)] == static_cast<uint8_t>(Finish::length) ? 1 : 0);
  batch.group_offsets.push_back(batch.answers());
  const int64_t shift = static_cast<int64_t>(batch.tokens.size()) - offsets[static_cast<size_t>(begin)];
  for (auto i = begin; i < end; ++i) batch.offsets.push_back(offsets[static_cast<size_t>(i) + 1] + shift);
  const int64_t from_token = offsets[static_cast<size_t>(begin)], to_token = offsets[static_cast<size_t>(end)];
  append(batch.tokens, from.sampled.tokens, from_token, to_token);
  append(batch.log_probs, from.sampled.log_probs, from_token, to_token);
  append(batch.versions, from.sampled.version, from_token, to_token);
  if (!from.reference.empty()) append(batch.reference, from.reference, from_token, to_token);
  append_messages(batch, from.messages, from_token, to_token);
  if (from.turn_rewards.empty()) return;
  batch.turn_rewards.resize(batch.tokens.size() - static_cast<size_t>(to_token - from_token));
  append(batch.turn_rewards, from.turn_rewards, from_token, to_token);
}

// Tokens of versions with a smaller number have no loss.
void mask_older(AnswerBatch& batch, uint64_t least_version) {
  const auto old = [&](int64_t version) { return static_cast<uint64_t>(version) < least_version; };
  if (std::ranges::none_of(batch.versions, old)) return;
  for (const int64_t version : batch.versions) batch.kept.push_back(old(version) ? 0 : 1);
}

}  // namespace

int64_t AnswerBatch::read_tokens_of(int64_t a) const {
  if (message_offsets.empty()) return tokens_of(a);
  return tokens_of(a) + message_offsets[size_at(offsets[size_at(a + 1)])] -
         message_offsets[size_at(offsets[size_at(a)])];
}

int64_t AnswerBatch::longest_turn_of(int64_t a) const {
  const int64_t first = offsets[size_at(a)], end = offsets[size_at(a + 1)];
  if (message_offsets.empty()) return end - first;
  int64_t begin = first, longest = 0;
  for (int64_t t = first + 1; t <= end; ++t) {
    if (t < end && message_offsets[size_at(t)] == message_offsets[size_at(t + 1)]) continue;
    longest = std::max(longest, t - begin);
    begin = t;
  }
  return longest;
}

void AnswerBatch::add_messages(std::span<const int32_t> ids, std::span<const int32_t> lengths) {
  if (lengths.empty()) return;
  if (message_offsets.empty()) message_offsets.push_back(0);
  for (const int32_t length : lengths) message_offsets.push_back(message_offsets.back() + length);
  messages.insert(messages.end(), ids.begin(), ids.end());
}

std::unique_ptr<AnswerBatch> gather_answers(const SuperBatch& batch) {
  auto result = std::make_unique<AnswerBatch>();
  result->index = batch.index;
  result->prompt_offsets = result->group_offsets = result->offsets = {0};
  for (const RolloutUnits& part : batch.parts) {
    TROUPE_CHECK(part.kind == UnitKind::group, static_cast<int>(part.kind));
    for (const int32_t group : part.indices) append_group(*result, part.rollout->answers(), group);
  }
  mask_older(*result, batch.least_version);
  if (!result->turn_rewards.empty()) result->turn_rewards.resize(result->tokens.size());
  result->samples = static_cast<uint64_t>(result->answers());
  return result;
}

namespace {

template <class T>
void append_all(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Offsets that begin with 0, after those that are there.
void append_offsets(std::vector<int64_t>& to, const std::vector<int64_t>& from) {
  const int64_t before = to.back();
  std::transform(from.begin() + 1, from.end(), std::back_inserter(to), [&](int64_t at) { return before + at; });
}

// A column that batches without it have too, as `usual`. `before` entries of other batches are there already.
template <class T>
void append_optional(std::vector<T>& to, const std::vector<T>& from, size_t before, size_t more, T usual) {
  if (to.empty() && from.empty()) return;
  to.resize(before, usual);
  append_all(to, from);
  to.resize(before + more, usual);
}

void append_batch(AnswerBatch& to, const AnswerBatch& from) {
  const size_t tokens = to.tokens.size(), more = from.tokens.size();
  append_optional(to.kept, from.kept, tokens, more, uint8_t{1});
  append_optional(to.turn_rewards, from.turn_rewards, tokens, more, 0.0f);
  if (!to.message_offsets.empty() || !from.message_offsets.empty()) {
    to.message_offsets.resize(tokens + 1, static_cast<int64_t>(to.messages.size()));
    if (!from.message_offsets.empty()) append_offsets(to.message_offsets, from.message_offsets);
    append_all(to.messages, from.messages);
    to.message_offsets.resize(tokens + more + 1, static_cast<int64_t>(to.messages.size()));
  }
  append_all(to.prompts, from.prompts);
  append_offsets(to.prompt_offsets, from.prompt_offsets);
  append_offsets(to.group_offsets, from.group_offsets);
  append_offsets(to.offsets, from.offsets);
  append_all(to.tokens, from.tokens);
  append_all(to.log_probs, from.log_probs);
  append_all(to.versions, from.versions);
  append_all(to.rewards, from.rewards);
  append_all(to.baselines, from.baselines);
  append_all(to.reference, from.reference);
  append_all(to.cut, from.cut);
  to.samples += from.samples;
}

}  // namespace

AnswerBatch joined_answers(std::span<const AnswerBatch* const> batches) {
  AnswerBatch result;
  result.index = batches.front()->index;
  result.stages = batches.front()->stages;
  result.prompt_offsets = result.group_offsets = result.offsets = {0};
  for (const AnswerBatch* batch : batches) append_batch(result, *batch);
  return result;
}

void mask_cut_answers(AnswerBatch& batch) {
  if (std::ranges::none_of(batch.cut, [](uint8_t cut) { return cut != 0; })) return;
  if (batch.kept.empty()) batch.kept.assign(batch.tokens.size(), 1);
  for (size_t a = 0; a < batch.cut.size(); ++a)
    if (batch.cut[a] != 0)
      std::fill(batch.kept.begin() + batch.offsets[a], batch.kept.begin() + batch.offsets[a + 1], uint8_t{0});
}

TokenCounts counts_of(const AnswerBatch& batch, std::span<const uint8_t> kept, int64_t g) {
  if (kept.empty())
    return {.tokens = static_cast<double>(batch.answer_tokens(g)),
            .sequences = static_cast<double>(batch.answers_of(g))};
  TokenCounts counts;
  const auto group = static_cast<size_t>(g);
  for (int64_t a = batch.group_offsets[group]; a < batch.group_offsets[group + 1]; ++a) {
    const auto first = kept.begin() + batch.offsets[static_cast<size_t>(a)],
               end = kept.begin() + batch.offsets[static_cast<size_t>(a) + 1];
    const auto live = static_cast<double>(std::count(first, end, 1));
    counts += {.tokens = live, .sequences = live > 0 ? 1.0 : 0.0};
  }
  return counts;
}

PackedAnswers pack_answers(const AnswerBatch& batch, std::span<const int64_t> answers, bool last_tokens) {
  PackedAnswers out;
  out.offsets.push_back(0);
  int64_t group = -1, prompt_begin = 0, prompt_end = 0;
  for (const int64_t a : answers) {
    if (const int64_t of = batch.group_of(a); of != group) {
      group = of;
      const auto at = static_cast<size_t>(group);
      prompt_begin = static_cast<int64_t>(out.ids.size());
      out.ids.insert(out.ids.end(), batch.prompts.begin() + batch.prompt_offsets[at],
                     batch.prompts.begin() + batch.prompt_offsets[at + 1]);
      prompt_end = static_cast<int64_t>(out.ids.size());
      out.sequences.push_back({.tokens = prompt_end - prompt_begin, .own_begin = prompt_begin});
    }
    const int64_t first = batch.offsets[static_cast<size_t>(a)], end = batch.offsets[static_cast<size_t>(a) + 1];
    const auto own = static_cast<int64_t>(out.ids.size());
    for (int64_t t = first; t < end; ++t) {
      append_message(batch, t, out.ids);
      const auto before = static_cast<int64_t>(out.ids.size());
      out.rows.push_back(before == own ? prompt_end - 1 : before - 1);
      out.labels.push_back(batch.tokens[static_cast<size_t>(t)]);
      out.places.push_back(t);
      if (t + 1 < end || last_tokens) out.ids.push_back(batch.tokens[static_cast<size_t>(t)]);
    }
    out.offsets.push_back(static_cast<int64_t>(out.rows.size()));
    out.answers.push_back(a);
    const int64_t inputs = static_cast<int64_t>(out.ids.size()) - own;
    if (last_tokens) out.last_rows.push_back(own + inputs - 1);
    if (inputs == 0) continue;
    out.sequences.push_back(
        {.tokens = inputs, .prefix_begin = prompt_begin, .prefix_end = prompt_end, .own_begin = own});
  }
  return out;
}

}  // namespace troupe
