#pragma once
// Discounted sums of rewards from each step on. Pure functions; any thread; they allocate nothing (with threads > 1:
// only the threads).

#include <cstdint>
#include <span>

#include "algorithms/scan/scan_arrays.h"

namespace troupe {

// What a masked step does to the sum. REINFORCE++ is Hu 2025 (arXiv:2501.03262), here as verl has it
// (github.com/volcengine/verl).
enum class MaskedReturn : uint8_t {
  skip = 0,   // its reward is lost and it costs no discount, as in gae()
  reset = 1,  // the sum starts anew before it: the carry of REINFORCE++ (below), a_t = gamma m_{t+1}
};

// Arrays are [T, B], or [B, T] when layout is rows; those that may be absent say so.
struct ReturnInput {
  int64_t steps = 0;      // T
  int64_t sequences = 0;  // B
  FloatView rewards;
  FlagView terminated;  // or absent; an episode ends here, of whatever kind
  FlagView mask;        // or absent
  MaskedReturn masked = MaskedReturn::skip;
  Outside outside = Outside::zero;   // carry with reset: reward + gamma * (the sum after it), as verl leaves it there
  float gamma = 1.0f;                // in [0, 1]
  FloatView gammas;                  // or absent; one per step, instead of gamma
  std::span<const float> bootstrap;  // [B] the sum after the last step, or empty = 0
  Layout layout = Layout::time;
  std::span<const int64_t> offsets;  // as in GaeInput
  int threads = 1;
};

// G_t = r_t + gamma G_{t+1}. Isolation, overlap, errors and reproducibility are as for gae().
void reward_to_go(const ReturnInput& in, OutputView returns);

}  // namespace troupe
