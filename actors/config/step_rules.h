#pragma once
// Rules for runs on environments (actors/config/kind_settings.h).

#include "actors/config/run_config.h"

namespace troupe {

// Throws ConfigError when adapters have no base, or when answers would be masked.
void check_step_settings(const RunConfig& config);

// Throws ConfigError when rollouts, batches of inference and super-batches do not fit each other.
void check_step_sizes(const RunConfig& config);

}  // namespace troupe
