#pragma once
// The section "rollout" of a config file. Plain values; any thread.

#include <cstdint>

#include "runtime/config/fields.h"

namespace troupe {

struct RolloutConfig {
  int64_t length = 32;  // T: decisions per row and rollout
  friend bool operator==(const RolloutConfig&, const RolloutConfig&) = default;
};

// Adds the settings of the section to `fields`, bound to the members of `config`.
void describe(RolloutConfig& config, Fields& fields);

}  // namespace troupe
