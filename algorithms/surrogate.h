#pragma once
// Policy surrogates: per-element losses (to be minimised) and their gradients with respect to the new log-probability,
// before any aggregation. Pure functions; any thread; they allocate nothing. A new surrogate is one function, one line
// in surrogate_table(), one test and one paragraph in docs/algorithms.md.

#include <cstdint>
#include <span>
#include <string_view>

namespace troupe {

struct SurrogateParams {
  float clip_low = 0.2f;   // the ratio is clipped at 1 - clip_low ...
  float clip_high = 0.2f;  // ... and 1 + clip_high; both >= 0, infinite = no bound
  float dual_clip = 0;     // bound c > 1 of the ratio for negative advantages; 0 = off
};

// All of one size n; rows of any shape, flattened.
struct SurrogateInput {
  std::span<const float> log_probs;      // [n] of the policy being trained
  std::span<const float> old_log_probs;  // [n] of the policy that acted
  std::span<const float> advantages;     // [n]
  std::span<const uint8_t> mask;         // [n], or empty = all; elements with 0 may hold anything, NaN included
};

struct SurrogateOutput {
  std::span<float> loss;  // [n] 0 where masked
  std::span<float> grad;  // [n] d loss / d log_prob, 0 where masked
};

using SurrogateFunction = void (*)(const SurrogateInput&, const SurrogateParams&, const SurrogateOutput&);

struct SurrogateEntry {
  std::string_view name;
  SurrogateFunction function;
};

// Every surrogate by its name in a run file (`algorithm.surrogate`).
std::span<const SurrogateEntry> surrogate_table();
// Throws ConfigError naming the nearest known name.
SurrogateFunction find_surrogate(std::string_view name);

// Means over the `count` unmasked elements, r = exp(log_prob - old_log_prob); all 0 when there is none.
struct SurrogateDiagnostics {
  double kl_k1 = 0;                   // mean of old - new: an unbiased estimate of KL(old || new), may be negative
  double kl_k3 = 0;                   // mean of r - 1 - log r: unbiased, never negative
  double clip_fraction = 0;           // where clipping takes effect: r high and A > 0, or r low and A < 0
  double clip_fraction_lower = 0;     // where dual clip takes effect: A < 0 and r > dual_clip
  double outside_fraction = 0;        // r outside the clip range, whatever the sign of A
  double dead_gradient_fraction = 0;  // where `clip` has no gradient: either clip, or log r beyond +-20
  double ess = 0;                     // (sum r)^2 / (n sum r^2), effective sample size as a fraction of n
  double ess_clamped = 0;             // the same for r clamped to the clip range; close to 1 by construction
  double ratio_mean = 0;
  double ratio_max = 0;
  double count = 0;  // n
};

// The diagnostics of the `clip` rule, whichever surrogate trains.
SurrogateDiagnostics surrogate_diagnostics(const SurrogateInput& in, const SurrogateParams& params);

}  // namespace troupe
