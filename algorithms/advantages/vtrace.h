#pragma once
// V-trace targets for off-policy data (Espeholt et al. 2018, "IMPALA", arXiv:1802.01561, eq. 1 and section 4.2; lambda
// as in seed_rl, github.com/google-research/seed_rl). A pure function; any thread; allocates nothing (with threads > 1:
// only the threads).

#include <cstdint>
#include <span>

#include "algorithms/scan/scan_arrays.h"

namespace troupe {

// What stands for the value after a step in the policy's target.
enum class QMix : uint8_t {
  impala = 0,  // vs_{t+1}, whatever lambda is (IMPALA, seed_rl)
  rlax = 1,    // lambda vs_{t+1} + (1 - lambda) V_{t+1}
};

// Arrays are [T, B], or [B, T] when layout is rows; those that may be absent say so.
struct VtraceInput {
  int64_t steps = 0;      // T
  int64_t sequences = 0;  // B
  FloatView log_rho;      // log pi(a|s) - log mu(a|s), summed over the dimensions of the action
  FloatView rewards;
  FloatView values;              // V(s_t) of the current critic
  FloatView next_values;         // or absent: `bootstrap`. V(s'_t) of the real next observation; read only where a
                                 // segment ends (see vtrace()), so the rest may be left unset
  FlagView terminated;           // or absent; a terminal state was reached; wins over `truncated`
  FlagView truncated;            // or absent; the episode was cut off; its last state has a value
  FlagView valid;                // or absent; 0 = void: closes the segment before it
  float gamma = 0.99f;           // in [0, 1]
  float lambda = 1.0f;           // in [0, 1]
  float rho_bar = 1.0f;          // bound of the ratio in the temporal difference; <= 0 or infinite = none
  float c_bar = 1.0f;            // bound of the ratio in the trace, at most rho_bar; <= 0 or infinite = none
  float pg_rho_bar = 1.0f;       // bound of the ratio in the policy gradient; <= 0 or infinite = none
  bool multiply_pg_rho = false;  // true: pg_advantages carry min(pg_rho_bar, rho). Leave false when the
                                 // surrogate has a ratio itself, else the data are weighted twice
  bool bootstrap_on_truncation = true;  // false: a cut-off counts as a terminal state
  QMix q_mix = QMix::impala;
  FloatView discounts;               // or absent; gamma (1 - terminated) per step, instead of gamma
  std::span<const float> bootstrap;  // [B] V after the last step, or empty: next_values of the last step, else 0
  Layout layout = Layout::time;
  int threads = 1;
};

// Value targets vs and policy advantages, both 0 at void steps. Inside a segment V(s_{t+1}) is values of the next step;
// next_values is read at truncated steps, before a void step and at the last step. Isolation, overlap, errors and
// reproducibility are as for gae(); also throws when rho_bar is below c_bar.
void vtrace(const VtraceInput& in, OutputView vs, OutputView pg_advantages);

}  // namespace troupe
