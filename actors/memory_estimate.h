#pragma once
// How much memory a run needs, from its settings alone: a lower bound, for refusing before the start what can never
// fit. Needs no LibTorch. Pure functions; any thread.

#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "envs/env.h"

namespace troupe {

struct MemoryNeed {
  std::string setting;  // the path that decides about it: "model.hidden"
  std::string value;    // of the setting
  std::string what;     // "the model's weights, gradients and moments"
  double bytes = 0;
};

// What a run surely takes by the end of its first update and its evaluation, each kind once.
std::vector<MemoryNeed> memory_needs(const RunConfig& config, const EnvSpec& env);

// What it may take in addition while it goes on, where the settings allow more than most runs use.
std::vector<MemoryNeed> possible_memory(const RunConfig& config, const EnvSpec& env);

}  // namespace troupe
