#pragma once
// LagFigures: how far the policy at the start of an update is from the policies that sampled its tokens, of all tokens
// and by their policy lag. Plain data and pure functions; any thread.

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "algorithms/losses/rollout_correction.h"
#include "models/learning/lag_classes.h"

namespace troupe {

// Of some tokens. r = exp(log p_start - log p_rollout), with the logarithm clamped to +-20; all 0 without tokens.
struct PolicyDistance {
  double tokens = 0;
  double kl = 0;  // mean of log p_rollout - log p_start: estimate of KL(rollout || start), may be negative
  double ratio_mean = 0, ratio_min = 0, ratio_max = 0;
};

// How old some tokens are; all 0 without tokens.
struct LagShares {
  double tokens = 0;
  double mean = 0, max = 0;                 // updates
  std::array<double, kLagClasses> share{};  // of the tokens, by their lag
};

// Of the tokens whose log-probabilities at the start of the update are known.
struct LagFigures {
  PolicyDistance all;
  std::array<PolicyDistance, kLagClasses> by_lag;
  LagShares of_batch = {};  // of all tokens of the super-batch
  // Where a correction is measured with the same tokens.
  std::optional<OffPolicyMetrics> correction = {};
};

// Of the tokens whose mask is not 0. start, rollout: log-probabilities; lags: updates from the policy that sampled a
// token to that of the start. All are [n]; an empty mask is all of them.
LagFigures lag_figures(std::span<const float> start, std::span<const float> rollout, std::span<const int64_t> lags,
                       std::span<const uint8_t> mask);
// Likewise, of the lags alone.
LagShares lag_shares(std::span<const int64_t> lags, std::span<const uint8_t> mask);

}  // namespace troupe
