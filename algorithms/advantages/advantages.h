#pragma once
// The table of advantage estimators: their functions for token sequences, and what a run needs to compute each one.
// Pure functions; any thread. docs/algorithms/adding.md explains how to add one.

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "algorithms/common/parameters.h"
#include "algorithms/common/token_sequences.h"

namespace troupe {

// A batch of B sequences, padded to [B, T] or ragged. Values at masked tokens, NaN included, affect no result unless a
// parameter asks for it.
struct AdvantageInput {
  TokenSequences sequences;                   // B sequences
  std::span<const float> rewards;             // [B, T] or [offsets.back()], per token
  std::span<const uint8_t> mask;              // per token, or empty = all unmasked; may have gaps
  std::span<const int64_t> groups;            // [B] prompt number: equal numbers = answers to one prompt, in any order
  std::span<const float> values;              // per token
  std::span<const float> baselines;           // [B] reward of the greedy answer
  std::span<const float> old_log_probs;       // per token, of the policy that sampled the tokens
  std::span<const float> sum_pi_squared;      // per token, sum over the vocabulary of pi^2
  std::span<const float> rollout_is_weights;  // per token, or empty = 1
  // Per token: those over which an estimator whitens, among the unmasked; empty = all of these.
  std::span<const uint8_t> whitened;

  std::span<const uint8_t> whitening_mask() const { return whitened.empty() ? mask : whitened; }
  bool counts(std::size_t token) const { return mask.empty() || mask[token] != 0; }
  // First token of a sequence, and one past its last.
  std::pair<std::size_t, std::size_t> range(int64_t sequence) const {
    return {static_cast<std::size_t>(sequences.begin(sequence)), static_cast<std::size_t>(sequences.end(sequence))};
  }
};

// Per token. The arrays must not overlap each other or the input.
struct AdvantageOutput {
  std::span<float> advantages;
  std::span<float> returns;
};

using AdvantageFunction = void (*)(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);

// Inputs that AdvantageEntry::function reads besides rewards and mask.
enum AdvantageNeed : uint8_t {
  kNeedsNothing = 0,
  kNeedsGroups = 1,
  kNeedsValues = 2,
  kNeedsBaselines = 4,
  kNeedsPolicy = 8,  // old_log_probs and sum_pi_squared; rollout_is_weights is optional
};

enum class ComputedBy : uint8_t { worker, trainer };

// Which actor computes an estimator in a run, and what it needs for that.
struct EstimatorRun {
  // What the worker computes travels in the rollouts. Its value targets are the returns of GAE.
  ComputedBy advantages = ComputedBy::worker;
  ComputedBy returns = ComputedBy::worker;
  bool columns = false;    // a batch holds whole columns of rollouts
  bool sequences = false;  // columns are cut into sequences; `function` treats each as one answer
  bool start = false;      // needs the policy from before the update, evaluated on the samples
  // Rollouts also hold the observations after their last step and the final observations of episodes that were cut off.
  bool next_observations = false;
  bool importance_weights = false;  // clipped by the settings rho_bar, c_bar and pg_rho_bar
};

struct AdvantageEntry {
  std::string_view name;
  std::span<const std::string_view> aliases;
  AdvantageFunction function;           // for sequences; nullptr if an AdvantageInput does not hold what it needs
  uint8_t needs;                        // bits of AdvantageNeed
  std::span<const Setting> parameters;  // of `function`
  EstimatorRun run;
};

// Every estimator under its name in a config file (`algorithm.advantage`). Those with a function are also in Python.
std::span<const AdvantageEntry> advantage_table();
// The estimator with this name or alias. Throws ConfigError that begins with `path` and
// suggests the nearest known name.
const AdvantageEntry& find_advantage(std::string_view name, std::string_view path = "algorithm.advantage");

// Checks the input and runs the estimator's function. Throws InvariantError when a size does not fit, ConfigError when
// the estimator has no function, when an input that it needs is missing or when a group is too small for it.
void estimate_advantages(const AdvantageEntry& entry, const AdvantageInput& in, const ParameterValues& parameters,
                         const AdvantageOutput& out);

}  // namespace troupe
