#pragma once
// The section "scorers" of a config file: the actors that compute with the frozen models of a token run. Plain values;
// any thread.

#include <cstdint>

#include "runtime/config/fields.h"

namespace troupe {

struct ScorersConfig {
  int64_t count = 1;            // inside the trainer's process
  int64_t batch_tokens = 4096;  // most tokens of one forward pass
  int64_t threads = 1;          // compute threads of one forward pass
  friend bool operator==(const ScorersConfig&, const ScorersConfig&) = default;
};

// Adds the settings of the section to `fields`, bound to the members of `config`.
void describe(ScorersConfig& config, Fields& fields);

}  // namespace troupe
