#pragma once
// Generalized advantage estimation (Schulman et al. 2016, "High-Dimensional Continuous Control Using Generalized
// Advantage Estimation", arXiv:1506.02438, eq. 16), which treats terminal states and truncated episodes differently,
// and lambda-returns, which are its value targets. Pure functions; any thread. They allocate no memory; with threads >
// 1 they start threads and allocate one number per sequence.

#include <cstdint>
#include <span>

#include "algorithms/scan/scan_arrays.h"

namespace troupe {

// Arrays are [T, B], or [B, T] when layout is rows. Optional arrays are marked "optional".
struct GaeInput {
  int64_t steps = 0;      // T
  int64_t sequences = 0;  // B
  FloatView rewards;
  FloatView values;       // V(s_t)
  FloatView next_values;  // optional; V(s'_t) of the real next observation; not read where terminated. Absent:
                          // V(s_{t+1}) of the same sequence, and `bootstrap` after its last step
  FlagView terminated;    // optional; a terminal state was reached; takes precedence over `truncated`
  FlagView truncated;     // optional; the episode was cut off; its last state still has a value
  FlagView valid;         // optional; 0 = invalid step: the segment before it ends there
  float gamma = 0.99f;    // in [0, 1]
  float lambda = 0.95f;   // in [0, 1]
  bool bootstrap_on_truncation = true;  // false: truncation counts as a terminal state
  FlagView mask;                        // optional; 0 = skipped: the steps before and after it are treated as adjacent.
                                        // Cannot be combined with `valid`
  Outside outside = Outside::zero;      // what to write at masked steps
  FloatView gammas;                     // optional; one per step, instead of gamma
  FloatView lambdas;                    // optional; one per step, instead of lambda
  std::span<const float> bootstrap;     // [B] V after the last step, or empty = 0
  Layout layout = Layout::time;
  std::span<const int64_t> offsets;  // [B + 1], or empty. Packed sequences of different lengths: sequence b is elements
                                     // [offsets[b], offsets[b + 1]) of flat arrays; requires layout rows and T = 0
  int threads = 1;
};

// Advantages and value targets (advantage + value), both with the shape of rewards. Both are 0 at invalid steps and,
// unless `outside` says otherwise, at masked ones. Inputs at invalid and masked steps, NaN included, affect no other
// step, and nothing propagates from one episode to the previous one. The outputs must not overlap each other or the
// inputs. Throws InvariantError when a size does not fit or gamma or lambda is outside [0, 1]. Time-major results are
// identical to the bit on every processor and with any number of threads. Results in row layout may differ by rounding
// between instruction sets.
void gae(const GaeInput& in, OutputView advantages, OutputView returns);

// Only the value targets of gae(): the lambda-return r + gamma ((1 - lambda) V' + lambda G'), where G' is that of the
// next step (Sutton and Barto 2018, "Reinforcement Learning: An Introduction", eq. 12.20).
void lambda_returns(const GaeInput& in, OutputView returns);

}  // namespace troupe
