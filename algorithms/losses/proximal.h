#pragma once
// The proximal policy: the one that the importance ratio of a corrected update is taken to (decoupled PPO, Hilton et
// al. 2022, arXiv:2110.00641; AReaL, Fu et al. 2025, arXiv:2505.24298). Pure functions; any thread.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace troupe {

enum class Proximal : uint8_t {
  computed = 0,      // the policy at the start of the update, with a forward pass of its own
  interpolated = 1,  // an estimate of it without one: interpolate_proximal()
  rollout = 2,       // the policy that sampled the tokens
};

inline constexpr std::array<std::string_view, 3> kProximalNames = {"computed", "interpolated", "rollout"};

// log p_prox = log p_rollout + a (log p - log p_rollout), where a = (d - 1) / d for a token with a lag d of at least 1
// update, and 0 without a lag (A-3PO, Li et al. 2025, arXiv:2512.06547). p is the policy being trained. All spans are
// [n]; a constant for the gradient.
void interpolate_proximal(std::span<const float> log_probs, std::span<const float> rollout_log_probs,
                          std::span<const int64_t> lags, std::span<float> proximal);

}  // namespace troupe
