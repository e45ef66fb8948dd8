#pragma once
// Whether a run can use its reward model. Blocks on the disk; any thread.

#include "actors/config/run_config.h"
#include "actors/experience/answers/token_run.h"

namespace troupe {

// Throws ConfigError "reward_model.path: ..." if the reward model of the config does not fit the policy. Does nothing
// without one. Reads no weights.
void check_reward_model(const RunConfig& config, const TokenRun& run);

}  // namespace troupe
