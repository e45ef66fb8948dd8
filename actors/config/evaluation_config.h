#pragma once
// The section "evaluation" of a run file. Plain values; any thread.

#include <cstdint>
#include <string>

#include "runtime/config/fields.h"

namespace troupe {

struct EvaluationConfig {
  int64_t every_updates = 0;  // evaluations during training; 0 = only the last one
  int64_t episodes = 100;
  int64_t rows = 50;            // sub-environments stepped together
  std::string device = "auto";  // as inference.device
  // JSON object: parameters of the environment that evaluations have in place of those of env.params.
  std::string env_params = "{}";
  friend bool operator==(const EvaluationConfig&, const EvaluationConfig&) = default;
};

// Adds the settings of the section, whose values are those of `config`.
void describe(EvaluationConfig& config, Fields& fields);

}  // namespace troupe
