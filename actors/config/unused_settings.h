#pragma once
// Part of validate() (actors/config/run_config.h).

#include "actors/config/run_config.h"

namespace troupe {

// Throws ConfigError when a setting has no effect because of another one and is not at its default.
void check_unused_settings(const RunConfig& config);

}  // namespace troupe
