#pragma once
// V-trace targets for off-policy data (Espeholt et al. 2018, "IMPALA", arXiv:1802.01561, eq. 1 and section 4.2; lambda
// as in seed_rl, github.com/google-research/seed_rl). A pure function; any thread. It allocates no memory; with threads
// > 1 it only starts threads.

#include <cstdint>
#include <span>

#include "algorithms/scan/scan_arrays.h"

namespace troupe {

// The value of the next state that the policy gradient's target uses.
enum class QMix : uint8_t {
  impala = 0,  // vs_{t+1}, independent of lambda (IMPALA, seed_rl)
  rlax = 1,    // lambda vs_{t+1} + (1 - lambda) V_{t+1}
};

// Arrays are [T, B], or [B, T] when layout is rows. Optional arrays are marked "optional".
struct VtraceInput {
  int64_t steps = 0;      // T
  int64_t sequences = 0;  // B
  FloatView log_rho;      // log pi(a|s) - log mu(a|s), summed over the dimensions of the action
  FloatView rewards;
  FloatView values;              // V(s_t) of the current critic
  FloatView next_values;         // optional; V(s'_t) of the real next observation; read only where a segment ends (see
                                 // vtrace()), other elements may be unset. Absent: `bootstrap`
  FlagView terminated;           // optional; a terminal state was reached; takes precedence over `truncated`
  FlagView truncated;            // optional; the episode was cut off; its last state still has a value
  FlagView valid;                // optional; 0 = invalid step: the segment before it ends there
  float gamma = 0.99f;           // in [0, 1]
  float lambda = 1.0f;           // in [0, 1]
  float rho_bar = 1.0f;          // upper bound of the ratio in the temporal difference; <= 0 or infinite = no bound
  float c_bar = 1.0f;            // upper bound of the ratio in the trace, at most rho_bar; <= 0 or infinite = no bound
  float pg_rho_bar = 1.0f;       // upper bound of the ratio in the policy gradient; <= 0 or infinite = no bound
  bool multiply_pg_rho = false;  // true: multiply pg_advantages by min(pg_rho_bar, rho). Leave false if the surrogate
                                 // already contains a ratio, or each sample is weighted twice
  bool bootstrap_on_truncation = true;  // false: truncation counts as a terminal state
  QMix q_mix = QMix::impala;
  FloatView discounts;               // optional; gamma (1 - terminated) per step, instead of gamma
  std::span<const float> bootstrap;  // [B] V after the last step. Empty: next_values of the last step, if given, else 0
  Layout layout = Layout::time;
  int threads = 1;
};

// Value targets vs and policy advantages, both 0 at invalid steps. Inside a segment V(s_{t+1}) is `values` of the next
// step. next_values is read at truncated steps, before an invalid step and at the last step. What gae() says about
// invalid steps, episodes, overlap, errors and reproducibility holds here; vtrace() also throws when rho_bar < c_bar.
void vtrace(const VtraceInput& in, OutputView vs, OutputView pg_advantages);

}  // namespace troupe
