#include "models/learning/rollout_weights.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/base/errors.h"

namespace troupe {

RolloutWeights weigh_rollout(const RolloutCorrection& correction, const StagedSamples& batch,
                             const Sequences& sequences, std::span<const float> log_probs,
                             std::span<const float> advantages, bool per_decision) {
  const int64_t decisions = batch.count == 0 ? 1 : batch.log_probs.size() / batch.count;
  TROUPE_CHECK(static_cast<int64_t>(log_probs.size()) == batch.count * decisions, log_probs.size(), batch.count,
               decisions);
  const int64_t per_sample = per_decision ? decisions : 1;
  const auto behaviour = batch.log_probs.view<float>();
  const int64_t advantages_per_sample = advantages.empty() ? 0 : static_cast<int64_t>(advantages.size()) / batch.count;
  // Only decisions that were executed are tokens, or belong to one.
  std::vector<float> now, then, token_advantages;
  std::vector<int64_t> first_token{0}, offsets;
  for (const int64_t sample : sequences.samples) {
    const int64_t executed = batch.decisions_of(sample);
    for (int64_t c = 0; c < (per_decision ? executed : 1); ++c) {
      const int64_t first = sample * decisions + c, last = first + (per_decision ? 1 : executed);
      now.push_back(std::accumulate(log_probs.begin() + first, log_probs.begin() + last, 0.0f));
      then.push_back(std::accumulate(behaviour.begin() + first, behaviour.begin() + last, 0.0f));
      if (!advantages.empty())
        token_advantages.push_back(advantages[sample * advantages_per_sample + (advantages_per_sample == 1 ? 0 : c)]);
    }
    first_token.push_back(static_cast<int64_t>(now.size()));
  }
  for (const int64_t offset : sequences.offsets) offsets.push_back(first_token[offset]);
  std::vector<float> weights(now.size());
  std::vector<uint8_t> kept(now.size());
  RolloutWeights result;
  result.metrics =
      rollout_correction(now, then, TokenSequences(offsets), {}, token_advantages, correction, weights, kept);
  result.weights.assign(batch.count * per_sample, 0.0f);
  result.kept.assign(batch.count * per_sample, 0);
  for (size_t i = 0; i < sequences.samples.size(); ++i) {
    const int64_t to = sequences.samples[i] * per_sample, from = first_token[i], count = first_token[i + 1] - from;
    std::copy_n(weights.begin() + from, count, result.weights.begin() + to);
    std::copy_n(kept.begin() + from, count, result.kept.begin() + to);
  }
  return result;
}

OffPolicyMetrics mean_of(std::span<const OffPolicyMetrics> batches) {
  using M = OffPolicyMetrics;
  constexpr std::array kMeans = {&M::kl,
                                 &M::k3_kl,
                                 &M::training_log_ppl,
                                 &M::rollout_log_ppl,
                                 &M::training_ppl,
                                 &M::rollout_ppl,
                                 &M::log_ppl_diff,
                                 &M::log_ppl_abs_diff,
                                 &M::ppl_ratio,
                                 &M::chi2_token,
                                 &M::chi2_seq,
                                 &M::weight_mean,
                                 &M::weight_std,
                                 &M::weight_high_fraction,
                                 &M::weight_low_fraction,
                                 &M::ess,
                                 &M::rejected_token_fraction,
                                 &M::rejected_sequence_fraction};
  constexpr std::array kLargest = {&M::log_ppl_diff_max, &M::weight_max};
  constexpr std::array kSmallest = {&M::log_ppl_diff_min, &M::weight_min};
  static_assert(sizeof(M) == (kMeans.size() + kLargest.size() + kSmallest.size()) * sizeof(double));
  OffPolicyMetrics result = batches.front();
  for (const OffPolicyMetrics& each : batches.subspan(1)) {
    for (auto member : kMeans) result.*member += each.*member;
    for (auto member : kLargest) result.*member = std::max(result.*member, each.*member);
    for (auto member : kSmallest) result.*member = std::min(result.*member, each.*member);
  }
  if (batches.size() > 1)
    for (auto member : kMeans) result.*member /= static_cast<double>(batches.size());
  return result;
}

}  // namespace troupe
