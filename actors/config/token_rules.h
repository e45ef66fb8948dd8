#pragma once
// Rules for token runs (actors/config/kind_settings.h).

#include "actors/config/run_config.h"

namespace troupe {

// Throws ConfigError when settings of a token run do not fit each other.
void check_answer_settings(const RunConfig& config);

}  // namespace troupe
