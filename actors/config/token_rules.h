#pragma once
// Part of validate() (actors/config/run_config.h).

#include "actors/config/run_config.h"

namespace troupe {

// Throws ConfigError when a setting has no effect because the run is a token run, or is not one, and is not at its
// default; and when settings of a token run do not fit each other.
void check_token_settings(const RunConfig& config);

}  // namespace troupe
