#include "models/learning/answers/policy_filtration.h"

#include <algorithm>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {
namespace {

// What it names in `from`; nothing if `from` is empty.
template <class T>
std::vector<T> chosen(const std::vector<T>& from, std::span<const int64_t> places) {
  std::vector<T> result;
  for (const int64_t place : places)
    if (!from.empty()) result.push_back(from[static_cast<size_t>(place)]);
  return result;
}

// Of the tokens of the answers.
std::vector<int64_t> places_of(const AnswerBatch& batch, std::span<const int64_t> answers) {
  std::vector<int64_t> result;
  for (const int64_t a : answers)
    for (int64_t t = batch.offsets[static_cast<size_t>(a)]; t < batch.offsets[static_cast<size_t>(a) + 1]; ++t)
      result.push_back(t);
  return result;
}

bool has_kept_token(const AnswerBatch& batch, int64_t answer) {
  for (int64_t t = batch.offsets[static_cast<size_t>(answer)]; t < batch.offsets[static_cast<size_t>(answer) + 1]; ++t)
    if (batch.is_kept(static_cast<size_t>(t))) return true;
  return false;
}

void add_prompt(const AnswerBatch& from, int64_t group, AnswerBatch& to) {
  const auto at = static_cast<size_t>(group);
  to.prompts.insert(to.prompts.end(), from.prompts.begin() + from.prompt_offsets[at],
                    from.prompts.begin() + from.prompt_offsets[at + 1]);
  to.prompt_offsets.push_back(static_cast<int64_t>(to.prompts.size()));
  to.group_offsets.push_back(to.group_offsets.back());
  if (!from.baselines.empty()) to.baselines.push_back(from.baselines[at]);
}

void add_messages(const AnswerBatch& from, std::span<const int64_t> places, AnswerBatch& to) {
  if (from.message_offsets.empty()) return;
  std::vector<int32_t> ids, lengths;
  for (const int64_t place : places) {
    const auto at = static_cast<size_t>(place);
    const int64_t begin = from.message_offsets[at], end = from.message_offsets[at + 1];
    ids.insert(ids.end(), from.messages.begin() + begin, from.messages.begin() + end);
    lengths.push_back(static_cast<int32_t>(end - begin));
  }
  to.add_messages(ids, lengths);
}

}  // namespace

std::optional<PolicyFiltration> policy_filtration(const AlgorithmConfig& config) {
  if (config.policy_filtration == "none") return std::nullopt;
  return PolicyFiltration{find_resample_weight(config.policy_filtration), config.policy_filtration_power};
}

std::vector<int64_t> draw_answers(const AnswerBatch& batch, std::span<const float> scores,
                                  const PolicyFiltration& filtration, uint64_t seed) {
  std::vector<int64_t> candidates;
  for (int64_t a = 0; a < batch.answers(); ++a)
    if (has_kept_token(batch, a)) candidates.push_back(a);
  const std::vector<float> of_candidates = chosen(std::vector<float>(scores.begin(), scores.end()), candidates);
  const uint64_t key = derive_key(seed, "policy filtration", batch.index);
  const std::vector<double> weights = resample_weights(of_candidates, filtration.weight, filtration.power);
  std::vector<int64_t> result =
      chosen(candidates, draw_sequences(weights, static_cast<int64_t>(candidates.size()), key));
  std::ranges::sort(result);
  return result;
}

AnswerBatch batch_of(const AnswerBatch& batch, std::span<const int64_t> answers) {
  TROUPE_CHECK(!answers.empty() && std::ranges::is_sorted(answers), answers.size());
  const std::vector<int64_t> places = places_of(batch, answers);
  AnswerBatch result;
  result.index = batch.index;
  result.samples = answers.size();
  result.prompt_offsets = result.group_offsets = result.offsets = {0};
  for (int64_t group = -1; const int64_t a : answers) {
    if (const int64_t of = batch.group_of(a); of != group) add_prompt(batch, group = of, result);
    ++result.group_offsets.back();
    result.offsets.push_back(result.offsets.back() + batch.tokens_of(a));
  }
  result.tokens = chosen(batch.tokens, places);
  result.log_probs = chosen(batch.log_probs, places);
  result.versions = chosen(batch.versions, places);
  result.kept = chosen(batch.kept, places);
  result.rewards = chosen(batch.rewards, answers);
  result.reference = chosen(batch.reference, places);
  result.turn_rewards = chosen(batch.turn_rewards, places);
  result.cut = chosen(batch.cut, answers);
  result.drawn_from = places;
  add_messages(batch, places, result);
  return result;
}

AnswerTargets targets_of(const AnswerTargets& targets, const AnswerBatch& batch, std::span<const int64_t> answers) {
  const std::vector<int64_t> places = places_of(batch, answers);
  return {.advantages = chosen(targets.advantages, places),
          .old_log_probs = chosen(targets.old_log_probs, places),
          .rollout_weights = chosen(targets.rollout_weights, places),
          .kept = chosen(targets.kept, places),
          .scores = chosen(targets.scores, answers),
          .values = chosen(targets.values, places),
          .returns = chosen(targets.returns, places),
          .reference = chosen(targets.reference, places),
          .reference_coef = targets.reference_coef,
          .figures = targets.figures};
}

}  // namespace troupe
