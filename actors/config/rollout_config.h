#pragma once
// The section "rollout" of a run file. Plain values; any thread.

#include <cstdint>

#include "runtime/config/fields.h"

namespace troupe {

struct RolloutConfig {
  int64_t length = 32;  // T: decisions per row and rollout
  friend bool operator==(const RolloutConfig&, const RolloutConfig&) = default;
};

// Adds the settings of the section, whose values are those of `config`.
void describe(RolloutConfig& config, Fields& fields);

}  // namespace troupe
