#pragma once
// Advantage estimators for sequences of tokens, by name. Pure functions; any thread. A new estimator is one function, one line
// in advantage_table(), one test and one paragraph in docs/algorithms.md.

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "algorithms/common/parameters.h"
#include "algorithms/common/rows.h"

namespace troupe {

// A batch of B sequences, padded to [B, T] or ragged. What stands at masked tokens, NaN included, changes no result unless a
// parameter asks for it.
struct AdvantageInput {
  Rows rows;                                  // B sequences
  std::span<const float> rewards;             // [B, T] or [offsets.back()], per token
  std::span<const uint8_t> mask;              // per token, or empty = all; may have gaps
  std::span<const int64_t> groups;            // [B] equal numbers = answers to one prompt, in any order
  std::span<const float> values;              // per token
  std::span<const float> baselines;           // [B] reward of the greedy answer
  std::span<const float> old_log_probs;       // per token, of the policy that acted
  std::span<const float> sum_pi_squared;      // per token, sum over the vocabulary of pi^2
  std::span<const float> rollout_is_weights;  // per token, or empty = 1

  bool counts(std::size_t token) const { return mask.empty() || mask[token] != 0; }
  // The first token of a row and the one after its last.
  std::pair<std::size_t, std::size_t> range(int64_t row) const {
    return {static_cast<std::size_t>(rows.begin(row)), static_cast<std::size_t>(rows.end(row))};
  }
};

// Per token; must not overlap each other or the input.
struct AdvantageOutput {
  std::span<float> advantages;
  std::span<float> returns;
};

using AdvantageFunction = void (*)(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);

// What an estimator reads besides rewards and mask.
enum AdvantageNeed : uint8_t {
  kNeedsNothing = 0,
  kNeedsGroups = 1,
  kNeedsValues = 2,
  kNeedsBaselines = 4,
  kNeedsPolicy = 8,  // old_log_probs and sum_pi_squared; rollout_is_weights may be there
};

struct AdvantageEntry {
  std::string_view name;
  std::span<const std::string_view> aliases;
  AdvantageFunction function;
  uint8_t needs;  // of AdvantageNeed
  std::span<const Setting> parameters;
};

// Every estimator by its name in a run file (`algorithm.advantage`) and in Python.
std::span<const AdvantageEntry> advantage_table();
// By name or alias. Throws ConfigError at `path`, naming the nearest known name.
const AdvantageEntry& find_advantage(std::string_view name, std::string_view path = "algorithm.advantage");

// Runs an estimator after checking its input. Throws InvariantError when a size does not fit, ConfigError when something that
// the estimator needs is missing or a group is too small for it.
void estimate_advantages(const AdvantageEntry& entry, const AdvantageInput& in, const ParameterValues& parameters,
                         const AdvantageOutput& out);

}  // namespace troupe
