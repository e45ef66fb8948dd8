#pragma once
// Whether a run can use its reward model. Blocks on the disk; any thread.

#include <string>

#include "actors/config/run_config.h"
#include "actors/experience/answers/token_run.h"

namespace troupe {

// Throws ConfigError "reward_model.path: ..." if the reward model of the config does not fit the policy. Does nothing
// without one. Reads no weights.
void check_reward_model(const RunConfig& config, const TokenRun& run);

// That the folder of the reward model is missing, as check_reward_model() says it; empty if it is there, or none is
// needed. A config can be listed without it.
std::string missing_reward_model(const RunConfig& config);

}  // namespace troupe
