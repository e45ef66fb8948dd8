#pragma once
// Whether a run can use the models in its folders. Blocks on the disk; any thread.

#include <string>

#include "actors/config/run_config.h"
#include "actors/experience/answers/token_run.h"

namespace troupe {

// Throws ConfigError "model.path: ..." or "model.critic_path: ..." for first weights that were trained with another
// tokenizer, as far as the folder has a tokenizer.json. One of the kind bpe may be chosen beside model.path.
void check_first_weights(const RunConfig& config, const TokenRun& run);

// Throws ConfigError "reward_model.path: ..." if the reward model of the config does not fit the policy. Does nothing
// without one. Reads no weights.
void check_reward_model(const RunConfig& config, const TokenRun& run);

// That the folder of the reward model is missing, as check_reward_model() says it; empty if it is there, or none is
// needed. A config can be listed without it.
std::string missing_reward_model(const RunConfig& config);

}  // namespace troupe
