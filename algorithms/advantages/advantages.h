#pragma once
// Advantage estimators by name: those for sequences of tokens as functions, and for all of them where a run computes
// them and what it needs for that. Pure functions; any thread. A new estimator for sequences is one function, one line
// in advantage_table(), one test and one paragraph in docs/algorithms.md.

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "algorithms/common/parameters.h"
#include "algorithms/common/token_sequences.h"

namespace troupe {

// A batch of B sequences, padded to [B, T] or ragged. What stands at masked tokens, NaN included, changes no result
// unless a parameter asks for it.
struct AdvantageInput {
  TokenSequences sequences;                   // B sequences
  std::span<const float> rewards;             // [B, T] or [offsets.back()], per token
  std::span<const uint8_t> mask;              // per token, or empty = all; may have gaps
  std::span<const int64_t> groups;            // [B] equal numbers = answers to one prompt, in any order
  std::span<const float> values;              // per token
  std::span<const float> baselines;           // [B] reward of the greedy answer
  std::span<const float> old_log_probs;       // per token, of the policy that acted
  std::span<const float> sum_pi_squared;      // per token, sum over the vocabulary of pi^2
  std::span<const float> rollout_is_weights;  // per token, or empty = 1

  bool counts(std::size_t token) const { return mask.empty() || mask[token] != 0; }
  // The first token of a sequence and the one after its last.
  std::pair<std::size_t, std::size_t> range(int64_t sequence) const {
    return {static_cast<std::size_t>(sequences.begin(sequence)), static_cast<std::size_t>(sequences.end(sequence))};
  }
};

// Per token; must not overlap each other or the input.
struct AdvantageOutput {
  std::span<float> advantages;
  std::span<float> returns;
};

using AdvantageFunction = void (*)(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);

// What AdvantageEntry::function reads besides rewards and mask.
enum AdvantageNeed : uint8_t {
  kNeedsNothing = 0,
  kNeedsGroups = 1,
  kNeedsValues = 2,
  kNeedsBaselines = 4,
  kNeedsPolicy = 8,  // old_log_probs and sum_pi_squared; rollout_is_weights may be there
};

enum class ComputedBy : uint8_t { worker, trainer };

// How a run computes an estimator, and what it needs for that.
struct EstimatorRun {
  // Rollouts carry what the worker computes. Its value targets are the returns of GAE.
  ComputedBy advantages = ComputedBy::worker;
  ComputedBy returns = ComputedBy::worker;
  bool columns = false;    // whole columns of rollouts in one batch
  bool sequences = false;  // the columns cut into sequences, each of which `function` takes for an answer
  bool start = false;      // what the policy from before the update says about the samples
  // In rollouts: the observations after the last step, and the final ones of episodes that were cut off.
  bool next_observations = false;
  bool importance_weights = false;  // bounded by the settings rho_bar, c_bar and pg_rho_bar
};

struct AdvantageEntry {
  std::string_view name;
  std::span<const std::string_view> aliases;
  AdvantageFunction function;  // for sequences; nullptr: there is none, because it needs more than an AdvantageInput
  uint8_t needs;               // of AdvantageNeed
  std::span<const Setting> parameters;  // of `function`
  EstimatorRun run;
};

// Every estimator by its name in a run file (`algorithm.advantage`); those with a function also in Python.
std::span<const AdvantageEntry> advantage_table();
// By name or alias. Throws ConfigError at `path`, naming the nearest known name.
const AdvantageEntry& find_advantage(std::string_view name, std::string_view path = "algorithm.advantage");

// Runs an estimator's function after checking its input. Throws InvariantError when a size does not fit, ConfigError
// when the estimator has no function, when something that it needs is missing or when a group is too small for it.
void estimate_advantages(const AdvantageEntry& entry, const AdvantageInput& in, const ParameterValues& parameters,
                         const AdvantageOutput& out);

}  // namespace troupe
