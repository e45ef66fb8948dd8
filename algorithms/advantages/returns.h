#pragma once
// Discounted sums of rewards from each step on. Pure functions; any thread. They allocate no memory; with threads > 1
// they only start threads.

#include <cstdint>
#include <span>

#include "algorithms/scan/scan_arrays.h"

namespace troupe {

// What a masked step does to the sum. `reset` is REINFORCE++ (Hu 2025, arXiv:2501.03262) as implemented by verl
// (github.com/volcengine/verl).
enum class MaskedReturn : uint8_t {
  skip = 0,   // its reward is ignored and it adds no discount, as in gae()
  reset = 1,  // the sums of earlier steps contain nothing from it on: G_t = r_t + gamma m_{t+1} G_{t+1}, m the mask
};

// Arrays are [T, B], or [B, T] when layout is rows. Optional arrays are marked "optional".
struct ReturnInput {
  int64_t steps = 0;      // T
  int64_t sequences = 0;  // B
  FloatView rewards;
  FlagView terminated;  // optional; an episode ends here, terminated or truncated
  FlagView mask;        // optional; 0 = masked
  MaskedReturn masked = MaskedReturn::skip;
  Outside outside = Outside::zero;   // at masked steps. carry with reset: r_t + gamma m_{t+1} G_{t+1}, as in verl
  float gamma = 1.0f;                // in [0, 1]
  FloatView gammas;                  // optional; one per step, instead of gamma
  std::span<const float> bootstrap;  // [B] the sum after the last step, or empty = 0
  Layout layout = Layout::time;
  std::span<const int64_t> offsets;  // as in GaeInput
  int threads = 1;
};

// G_t = r_t + gamma G_{t+1}. What gae() says about masked steps, episodes, overlap, errors and
// reproducibility holds here.
void reward_to_go(const ReturnInput& in, OutputView returns);

}  // namespace troupe
