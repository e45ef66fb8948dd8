#pragma once
// Generalised advantage estimation (Schulman et al. 2016, "High-Dimensional Continuous Control Using Generalized
// Advantage Estimation", arXiv:1506.02438, eq. 16), with terminal states and cut-off episodes kept apart, and
// lambda-returns, which are its value targets. Pure functions; any thread; they allocate nothing (with threads > 1: the
// threads, and a number per sequence).

#include <cstdint>
#include <span>

#include "algorithms/scan/scan_arrays.h"

namespace troupe {

// Arrays are [T, B], or [B, T] when layout is rows; those that may be absent say so.
struct GaeInput {
  int64_t steps = 0;      // T
  int64_t sequences = 0;  // B
  FloatView rewards;
  FloatView values;       // V(s_t)
  FloatView next_values;  // or absent: V(s_{t+1}) of the same sequence, after its last step `bootstrap`. Else
                          // V(s'_t) of the real next observation; not read where terminated
  FlagView terminated;    // or absent; a terminal state was reached; wins over `truncated`
  FlagView truncated;     // or absent; the episode was cut off; its last state has a value
  FlagView valid;         // or absent; 0 = void: the segment before it ends there
  float gamma = 0.99f;    // in [0, 1]
  float lambda = 0.95f;   // in [0, 1]
  bool bootstrap_on_truncation = true;  // false: a cut-off counts as a terminal state
  FlagView mask;                     // or absent; 0 = skipped: the step after follows the one before directly; not both
                                     // this and `valid`
  Outside outside = Outside::zero;   // of `mask`
  FloatView gammas;                  // or absent; one per step, instead of gamma
  FloatView lambdas;                 // or absent; one per step, instead of lambda
  std::span<const float> bootstrap;  // [B] V after the last step, or empty = 0
  Layout layout = Layout::time;
  std::span<const int64_t> offsets;  // [B + 1], or empty. Packed sequences of different lengths: sequence b is elements
                                     // [offsets[b], offsets[b + 1]) of flat arrays; layout rows, T = 0
  int threads = 1;
};

// Advantages and value targets (advantage + value), both of the shape of rewards, both 0 at void steps and, unless
// outside says otherwise, at masked ones. What the arrays hold at void and masked steps, NaN included, reaches no other
// step, and nothing passes from one episode to the one before. The outputs must not overlap each other or the inputs.
// Throws InvariantError when a size does not fit or gamma or lambda is outside [0, 1]. Time-major results are the same
// bytes on every processor and with any number of threads; those of rows may differ between instruction sets by
// rounding.
void gae(const GaeInput& in, OutputView advantages, OutputView returns);

// Only the value targets of gae(): the lambda-return r + gamma ((1 - lambda) V' + lambda G'), G' the next one (Sutton
// and Barto 2018, "Reinforcement Learning: An Introduction", eq. 12.20).
void lambda_returns(const GaeInput& in, OutputView returns);

}  // namespace troupe
