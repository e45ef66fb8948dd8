#pragma once
// The section "env" of a config file: the environment, and how its steps are grouped and rewards scaled.
// Plain values; any thread.

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/config/fields.h"

namespace troupe {

struct EnvConfig {
  std::string id = "CartPole-v1";
  // JSON object with the environment's parameters, which the environment checks.
  std::string params = "{}";
  int64_t rows = 32;  // sub-environments stepped together by one group of a worker
  int64_t chunk = 0;  // environment steps executed per action; 0 = the environment's default (1 for most)
  // Rewards are multiplied by this before training uses them; reports show unscaled returns.
  double reward_scale = 1.0;
  double max_abs_reward = 0.0;     // scaled rewards are clipped to this magnitude; 0 = no clipping
  bool normalize_actions = false;  // policies use [-1, 1], mapped to the bounds of continuous actions
  // Of environments in Python (ids that begin with gym:, envpool:, zoo: or py:).
  std::string python = "python3";                    // the interpreter: a name in PATH, or a path
  int64_t processes = 1;                             // processes among which the rows of one group are divided
  std::chrono::milliseconds step_timeout{60'000};    // for a step of one group; also of libraries in C
  std::chrono::milliseconds start_timeout{300'000};  // for the start of a process, with the first reset of its rows
  // Of environments in C (lib:FILE.so): the library runs in a process of its own, so that a crash ends only that.
  bool isolate = true;
  friend bool operator==(const EnvConfig&, const EnvConfig&) = default;
};

// Adds the settings of the section to `fields`, bound to the members of `config`.
void describe(EnvConfig& config, Fields& fields);

}  // namespace troupe
