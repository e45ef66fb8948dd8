#pragma once
// The section "stop" of a config file: when training ends. Plain values; any thread.

#include <cstdint>

#include "runtime/config/fields.h"

namespace troupe {

struct StopConfig {
  int64_t env_steps = 500'000;  // 0 = no limit
  int64_t updates = 0;          // 0 = no limit
  double seconds = 0.0;         // 0 = no limit
  double eval_return = 0.0;     // stop when an evaluation during training reaches this mean return; 0 = off
  bool after_warmup = false;    // token runs: stop when the warm-up is over
  bool on_collapse = false;     // stop when an alarm of level error is raised
  friend bool operator==(const StopConfig&, const StopConfig&) = default;
};

// Adds the settings of the section to `fields`, bound to the members of `config`.
void describe(StopConfig& config, Fields& fields);

}  // namespace troupe
