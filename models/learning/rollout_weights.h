#pragma once
// Rollout correction (algorithms/losses/rollout_correction.h) of a staged batch: how far the policy at the start of an
// update has come from the one that acted, as weights and rejections of the samples. A pure function; any thread.

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/losses/rollout_correction.h"
#include "models/learning/sequences.h"
#include "models/learning/staging.h"

namespace troupe {

struct RolloutWeights {
  std::vector<float> weights;  // [B, C] factors of the policy loss
  std::vector<uint8_t> kept;   // [B, C] 0 = rejected, or a decision that was not executed
  OffPolicyMetrics metrics;
};

// C is 1 (the log-probabilities of the D decisions of a sample add up) or, per decision, D. log_probs [B, D] of the
// policy at the start of the update; advantages [B, A] with A = 1 or D, or empty when there is no opsm_delta.
RolloutWeights weigh_rollout(const RolloutCorrection& correction, const StagedSamples& batch,
                             const Sequences& sequences, std::span<const float> log_probs,
                             std::span<const float> advantages, bool per_decision);

// Of several batches, at least one: means over them, and the largest and smallest of those figures that are such.
OffPolicyMetrics mean_of(std::span<const OffPolicyMetrics> batches);

}  // namespace troupe
