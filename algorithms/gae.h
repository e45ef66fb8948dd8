#pragma once
// Generalised advantage estimation (Schulman et al. 2016, "High-Dimensional Continuous Control Using Generalized
// Advantage Estimation", eq. 16), with terminal states and cut-off episodes kept apart. A pure function; any thread;
// allocates nothing.

#include <cstdint>
#include <span>

namespace troupe {

struct GaeInput {
  int64_t steps = 0;                    // T
  int64_t columns = 0;                  // N
  std::span<const float> rewards;       // [T, N]
  std::span<const float> values;        // [T, N] V(s_t)
  std::span<const float> next_values;   // [T, N] V(s'_t) of the real next observation; not read where terminated
  std::span<const uint8_t> terminated;  // [T, N] a terminal state was reached; wins over `truncated`
  std::span<const uint8_t> truncated;   // [T, N] the episode was cut off; its last state has a value
  std::span<const uint8_t> valid;       // [T, N], or empty = all; 0 = void: closes the segment before it
  float gamma = 0.99f;                  // in [0, 1]
  float lambda = 0.95f;                 // in [0, 1]
  bool bootstrap_on_truncation = true;  // false: a cut-off counts as a terminal state
};

// Advantages and value targets (advantage + value), both [T, N], both 0 at void steps. The last step of every column
// bootstraps from its next_values. What the arrays hold at void steps, NaN included, reaches no other step, and nothing
// passes from one episode to the one before. The outputs must not overlap each other or the inputs. Throws
// InvariantError when a size is not T * N or a factor is outside [0, 1].
void gae(const GaeInput& in, std::span<float> advantages, std::span<float> returns);

}  // namespace troupe
