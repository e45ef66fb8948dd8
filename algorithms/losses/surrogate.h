#pragma once
// Policy surrogates by name: per-token losses (to be minimised), their gradients with respect to the new
// log-probability, and the diagnostics of the step, made in one pass. Pure functions; any thread; they allocate
// nothing. A new surrogate is one function and one line in surrogate_table(), the same in its device form
// (device/device_surrogate.h), one test and one paragraph in docs/algorithms.md.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "algorithms/common/parameters.h"
#include "algorithms/common/token_sequences.h"
#include "algorithms/losses/aggregation.h"

namespace troupe {

// Tokens, sequence after sequence; all of one size n.
struct SurrogateInput {
  std::span<const float> log_probs;             // [n] of the policy being trained
  std::span<const float> old_log_probs;         // [n] of the policy that acted
  std::span<const float> advantages;            // [n]
  std::span<const uint8_t> mask = {};           // [n], or empty = all; elements with 0 may hold anything, NaN included
  std::span<const float> rollout_weights = {};  // [n] constant factors of the loss (rollout_correction.h), or empty = 1
  std::optional<TokenSequences> sequences = {};   // left out: one sequence
  std::span<const double> sequence_weights = {};  // [S] of aggregation_weights(), or empty = 1
  uint64_t key = 0;                               // names the random stream of clip_cov (runtime/base/rng.h)
};

// Either may be empty: then it is not made.
struct SurrogateOutput {
  std::span<float> loss = {};  // [n] times the weight of its sequence, 0 where masked
  std::span<float> grad = {};  // [n] d loss / d log_prob, the same
};

// Sums over the `count` unmasked tokens; those of micro-batches and ranks add up. r = exp(d), d = log_prob -
// old_log_prob clamped to +-20, bounds [1 - clip_low, 1 + clip_high] of the parameters.
struct SurrogateSums {
  double loss = 0;   // the aggregate: losses times the weights of their sequences
  double count = 0;  // n
  double log_ratio = 0, log_ratio_squared = 0;
  double k3 = 0;             // r - 1 - d
  double clipped = 0;        // where the surrogate's own clipping takes effect
  double clipped_lower = 0;  // where its bound for negative advantages does: A < 0 and r > dual_clip
  double outside = 0;        // r outside the bounds, whatever the sign of A
  double dead = 0;           // r high and A > 0, or r low and A < 0, or A < 0 and r > dual_clip, or |d| beyond 20
  double saturated = 0;      // sapo: gate below its threshold
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
  double clip_fraction = 0;           // where the surrogate's clipping takes effect
  double clip_fraction_lower = 0;     // where dual clip takes effect
  double outside_fraction = 0;        // r outside the bounds, whatever the sign of A
  double dead_gradient_fraction = 0;  // where the clip rule has no gradient, whichever surrogate trains
  double saturated_fraction = 0;      // sapo: gate below its threshold
  double ess = 0;                     // (sum r)^2 / (n sum r^2), effective sample size as a fraction of n
  double ess_clamped = 0;             // the same for r clamped to the bounds; close to 1 by construction
  double ratio_mean = 0;
  double ratio_max = 0;
  double ratio_min = 0;
  double count = 0;  // n
};
SurrogateDiagnostics diagnostics_of(const SurrogateSums& sums);

using SurrogateFunction = SurrogateSums (*)(const SurrogateInput&, const ParameterValues&, const SurrogateOutput&);

// What one token's loss depends on: itself, its sequence, or every token that is handed over together.
enum class SurrogateNeeds : uint8_t { token = 0, sequence = 1, batch = 2 };

// Another name; it may come with another default of one parameter.
struct SurrogateAlias {
  std::string_view name;
  std::string_view key = {};
  double value = 0;
};

struct SurrogateEntry {
  std::string_view name;
  std::array<SurrogateAlias, 5> aliases;  // the empty ones end the list
  std::span<const Setting> parameters;
  SurrogateNeeds needs;
  Aggregation aggregation;  // where the user does not say
  SurrogateFunction function;
};

// Every surrogate by its name in a run file (`algorithm.surrogate`).
std::span<const SurrogateEntry> surrogate_table();

// A surrogate with its parameters, ready for use:
//   Surrogate s = make_surrogate("clip");
//   s.parameters.set("algorithm.surrogate", "clip_high", 0.28);
//   const SurrogateSums sums = s(input, output);
struct Surrogate {
  const SurrogateEntry* entry;
  ParameterValues parameters;

  // Throws InvariantError when sizes do not fit, ConfigError when parameters do not fit each other.
  SurrogateSums operator()(const SurrogateInput& in, const SurrogateOutput& out) const {
    return entry->function(in, parameters, out);
  }
};

// Found by name or alias, with its defaults. `path` stands before names and keys in errors. Throws ConfigError naming
// the nearest known name.
Surrogate make_surrogate(std::string_view name, std::string_view path = "algorithm.surrogate");

}  // namespace troupe
