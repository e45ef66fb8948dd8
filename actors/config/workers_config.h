#pragma once
// The section "workers" of a config file. Plain values; any thread.

#include <chrono>
#include <cstdint>
#include <vector>

#include "runtime/config/fields.h"

namespace troupe {

struct WorkersConfig {
  int64_t count = 1;             // rollout workers inside the trainer's process
  int64_t groups = 2;            // vector environments per worker: one steps while the other waits for its actions
  int64_t quarantine_after = 5;  // failures in a row after which a sub-environment is in quarantine
  std::chrono::milliseconds restart_backoff{100};  // pause after a failure, doubled at each further one in a row
  // The run ends when all environments have failed for this time without a step of any; 0 = it never ends for this.
  std::chrono::milliseconds failure_timeout{60'000};
  // A worker that holds credits and makes no step for this time loses them; 0 = it keeps them.
  std::chrono::milliseconds credit_timeout{60'000};
  friend bool operator==(const WorkersConfig&, const WorkersConfig&) = default;
};

// Adds the settings of the section to `fields`, bound to the members of `config`.
void describe(WorkersConfig& config, Fields& fields);

}  // namespace troupe
