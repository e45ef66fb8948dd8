#pragma once
// Part of validate() (runtime/config/run_config.h).

#include "runtime/config/run_config.h"

namespace troupe {

// Throws ConfigError when a setting has no effect because of another one and is not at its default.
void check_unused_settings(const RunConfig& config);

}  // namespace troupe
