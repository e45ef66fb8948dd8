#pragma once
// The LibTorch models, as make_model's table sees them.

#include <memory>

#include "envs/env.h"
#include "models/policy.h"
#include "runtime/config/run_config.h"

namespace troupe {

std::unique_ptr<Policy> make_mlp_policy(const RunConfig& config, const EnvSpec& env);
std::unique_ptr<Learner> make_mlp_learner(const RunConfig& config, const EnvSpec& env);

}  // namespace troupe
