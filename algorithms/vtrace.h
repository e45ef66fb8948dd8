#pragma once
// V-trace targets for off-policy data (Espeholt et al. 2018, "IMPALA", eq. 1 and section 4.2; lambda as in
// seed_rl). A pure function; any thread; allocates nothing.

#include <cstdint>
#include <span>

namespace troupe {

struct VtraceInput {
  int64_t steps = 0;                    // T
  int64_t columns = 0;                  // N
  std::span<const float> log_rho;       // [T, N] log pi(a|s) - log mu(a|s), summed over the dimensions of the action
  std::span<const float> rewards;       // [T, N]
  std::span<const float> values;        // [T, N] V(s_t) of the current critic
  std::span<const float> next_values;   // [T, N] V(s'_t) of the real next observation; read only where a segment ends
                                        // (see vtrace()), so the rest may be left unset
  std::span<const uint8_t> terminated;  // [T, N] a terminal state was reached; wins over `truncated`
  std::span<const uint8_t> truncated;   // [T, N] the episode was cut off; its last state has a value
  std::span<const uint8_t> valid;       // [T, N], or empty = all; 0 = void: closes the segment before it
  float gamma = 0.99f;                  // in [0, 1]
  float lambda = 1.0f;                  // in [0, 1]
  float rho_bar = 1.0f;                 // bound of the ratio in the temporal difference; <= 0 or infinite = none
  float c_bar = 1.0f;                   // bound of the ratio in the trace, at most rho_bar; <= 0 or infinite = none
  float pg_rho_bar = 1.0f;              // bound of the ratio in the policy gradient; <= 0 or infinite = none
  bool multiply_pg_rho = false;         // true: pg_advantages carry min(pg_rho_bar, rho). Leave false when the
                                        // surrogate has a ratio itself, else the data are weighted twice
  bool bootstrap_on_truncation = true;  // false: a cut-off counts as a terminal state
};

// Value targets vs and policy advantages, both [T, N], both 0 at void steps. Inside a segment V(s_{t+1}) is values of
// the next step; next_values is read at truncated steps, before a void step and at the last step. Isolation, overlap
// and errors are as for gae(); also throws when rho_bar is below c_bar.
void vtrace(const VtraceInput& in, std::span<float> vs, std::span<float> pg_advantages);

}  // namespace troupe
