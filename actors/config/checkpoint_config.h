#pragma once
// The section "checkpoint" of a config file. Plain values; any thread.

#include <cstdint>

#include "runtime/config/fields.h"

namespace troupe {

struct CheckpointConfig {
  int64_t every_updates = 50;  // updates between checkpoints; 0 = only at the end
  int64_t keep = 3;            // newest checkpoints kept; 0 = all
  int64_t keep_best = 0;       // best-scoring checkpoints kept in addition to the newest ones
  friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

// Adds the settings of the section to `fields`, bound to the members of `config`.
void describe(CheckpointConfig& config, Fields& fields);

}  // namespace troupe
