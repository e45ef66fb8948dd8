#pragma once
// The section "env" of a run file: the environment and how its steps are seen. Plain values; any thread.

#include <cstdint>
#include <string>

#include "runtime/config/fields.h"

namespace troupe {

struct EnvConfig {
  std::string id = "CartPole-v1";
  // JSON object with the environment's own parameters; its keys are checked by the environment.
  std::string params = "{}";
  int64_t rows = 32;  // sub-environments stepped together by one group of a worker
  int64_t chunk = 0;  // environment steps executed per action; 0 = the environment's own (1 for most)
  // Rewards are multiplied by this before anything else sees them; reports show unscaled returns.
  double reward_scale = 1.0;
  double max_abs_reward = 0.0;  // scaled rewards are clipped to this magnitude; 0 = no clipping
  friend bool operator==(const EnvConfig&, const EnvConfig&) = default;
};

// Adds the settings of the section, whose values are those of `config`.
void describe(EnvConfig& config, Fields& fields);

}  // namespace troupe
