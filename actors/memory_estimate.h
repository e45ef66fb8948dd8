#pragma once
// The memory that a run needs, from its settings alone. Used to refuse a run that can never fit before it starts, and
// to tell the user what its memory is for. Needs no LibTorch. Pure functions; any thread.

#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "envs/env.h"

namespace troupe {

struct MemoryNeed {
  std::string setting;  // path of the setting that determines it: "model.hidden"; empty = none does
  std::string value;    // of the setting
  std::string what;     // "the model's weights, gradients and moments"
  double bytes = 0;
};

// Memory that every run uses by the end of its first update and evaluation; one entry for each kind.
std::vector<MemoryNeed> memory_needs(const RunConfig& config, const EnvSpec& env);

// The most that replay may hold of samples with so many bytes each. A run reaches this only if workers are faster than
// the trainer.
MemoryNeed memory_of_replay(const RunConfig& config, double sample_bytes);

// What several ranks need besides, with a model and samples of so many bytes.
MemoryNeed memory_of_ranks(const RunConfig& config, double model_bytes, double sample_bytes);

// Memory that the settings allow in addition later in the run, more than most runs use.
std::vector<MemoryNeed> possible_memory(const RunConfig& config, const EnvSpec& env);

}  // namespace troupe
