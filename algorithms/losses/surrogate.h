#pragma once
// Policy surrogates by name: per-token losses (to be minimized), their gradients with respect to the new
// log-probability, and diagnostics, computed in one pass. Pure functions; any thread; no allocation.
// docs/algorithms/adding.md explains how to add one.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "algorithms/common/parameters.h"
#include "algorithms/common/token_sequences.h"
#include "algorithms/losses/aggregation.h"
#include "algorithms/losses/class_sums.h"

namespace troupe {

// Tokens, one sequence after the other; all arrays have n elements.
struct SurrogateInput {
  std::span<const float> log_probs;             // [n] of the policy being trained
  std::span<const float> old_log_probs;         // [n] of the policy that sampled the tokens
  std::span<const float> advantages;            // [n]
  std::span<const uint8_t> mask = {};           // [n], or empty = all; masked elements may be anything, NaN included
  std::span<const float> rollout_weights = {};  // [n] constant factors of the loss (rollout_correction.h), or empty = 1
  std::optional<TokenSequences> sequences = {};   // not given: one sequence
  std::span<const double> sequence_weights = {};  // [S] from aggregation_weights(), or empty = 1
  uint64_t key = 0;                               // selects the random stream of clip_cov (runtime/base/rng.h)
  std::span<const uint8_t> classes = {};          // [n] of each token, below K; given if by_class is
};

// An empty array is not computed.
struct SurrogateOutput {
  std::span<float> loss = {};          // [n] loss times the weight of its sequence, 0 where masked
  std::span<float> grad = {};          // [n] d loss / d log_prob, weighted and masked likewise
  std::span<ClassSums> by_class = {};  // [K] added to: the sums of the tokens of each class
};

// Sums over the `count` unmasked tokens; add those of micro-batches and ranks. r = exp(d), where d = log_prob -
// old_log_prob, clamped to +-20. The bounds are [1 - clip_low, 1 + clip_high] of the parameters.
struct SurrogateSums {
  double loss = 0;   // the aggregate: losses times the weights of their sequences
  double count = 0;  // n
  double log_ratio = 0, log_ratio_squared = 0;
  double k3 = 0;             // r - 1 - d
  double clipped = 0;        // tokens where the surrogate's own clipping is active
  double clipped_lower = 0;  // tokens where its bound for negative advantages is active: A < 0 and r > dual_clip
  double outside = 0;        // tokens with r outside the bounds, whatever the sign of A
  double dead = 0;           // r high and A > 0, or r low and A < 0, or A < 0 and r > dual_clip, or |d| beyond 20
  double saturated = 0;      // sapo: tokens with a gate below its threshold
  double ratio = 0, ratio_squared = 0;
  double clamped = 0, clamped_squared = 0;  // of r clamped to the bounds
  double ratio_max = 0;
  double ratio_min = 0;  // 0 while count is 0

  void merge(const SurrogateSums& other);
};

// Means over the unmasked tokens; all 0 when there is none.
struct SurrogateDiagnostics {
  double kl_k1 = 0;                   // mean of old - new: an unbiased estimate of KL(old || new), may be negative
  double kl_k2 = 0;                   // mean of (old - new)^2 / 2: low variance, biased
  double kl_k3 = 0;                   // mean of r - 1 - log r: unbiased, never negative
  double clip_fraction = 0;           // tokens where the surrogate's clipping is active
  double clip_fraction_lower = 0;     // tokens where dual clip is active
  double outside_fraction = 0;        // tokens with r outside the bounds, whatever the sign of A
  double dead_gradient_fraction = 0;  // tokens without gradient under the clip rule, whichever surrogate is in use
  double saturated_fraction = 0;      // sapo: tokens with a gate below its threshold
  double ess = 0;                     // (sum r)^2 / (n sum r^2), effective sample size as a fraction of n
  double ess_clamped = 0;             // the same for r clamped to the bounds; close to 1 by construction
  double ratio_mean = 0;
  double ratio_max = 0;
  double ratio_min = 0;
  double count = 0;  // n
};
SurrogateDiagnostics diagnostics_of(const SurrogateSums& sums);

using SurrogateFunction = SurrogateSums (*)(const SurrogateInput&, const ParameterValues&, const SurrogateOutput&);

// What the loss of one token depends on: only itself, its sequence, or all tokens of the call.
enum class SurrogateNeeds : uint8_t { token = 0, sequence = 1, batch = 2 };

// An alternative name, optionally with a different default of one parameter.
struct SurrogateAlias {
  std::string_view name;
  std::string_view key = {};
  double value = 0;
};

struct SurrogateEntry {
  std::string_view name;
  std::array<SurrogateAlias, 5> aliases;  // the first empty one ends the list
  std::span<const Setting> parameters;
  SurrogateNeeds needs;
  Aggregation aggregation;  // the default for this surrogate
  SurrogateFunction function;
  bool has_ratio = true;  // whether the loss contains the importance ratio
};

// Every surrogate under its name in a config file (`algorithm.surrogate`).
std::span<const SurrogateEntry> surrogate_table();

// A surrogate with its parameters, ready for use:
//   Surrogate s = make_surrogate("clip");
//   s.parameters.set("algorithm.surrogate", "clip_high", 0.28);
//   const SurrogateSums sums = s(input, output);
struct Surrogate {
  const SurrogateEntry* entry;
  ParameterValues parameters;

  // Throws InvariantError when sizes do not fit, ConfigError when parameters contradict each other.
  SurrogateSums operator()(const SurrogateInput& in, const SurrogateOutput& out) const {
    return entry->function(in, parameters, out);
  }
};

// The surrogate with this name or alias and its default parameters. Errors put `path` before names and keys. Throws
// ConfigError with the nearest known name.
Surrogate make_surrogate(std::string_view name, std::string_view path = "algorithm.surrogate");

}  // namespace troupe
