#pragma once
// The section "evaluation" of a config file. Plain values; any thread.

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/config/fields.h"

namespace troupe {

struct EvaluationConfig {
  int64_t every_updates = 0;  // updates between evaluations during training; 0 = only the final evaluation
  int64_t episodes = 100;
  // Token runs: answers to each prompt, and the temperature at which they are sampled; 0 = the most likely answer.
  int64_t answers = 1;
  double temperature = 0;
  int64_t rows = 50;  // sub-environments stepped together
  // An evaluation in which no episode ends for this time ends with the episodes that it has; 0 = never.
  std::chrono::milliseconds timeout{300'000};
  std::string device = "auto";  // values as in inference.device
  // JSON object: environment parameters that override those of env.params in evaluations.
  std::string env_params = "{}";
  friend bool operator==(const EvaluationConfig&, const EvaluationConfig&) = default;
};

// Adds the settings of the section to `fields`, bound to the members of `config`.
void describe(EvaluationConfig& config, Fields& fields);

}  // namespace troupe
