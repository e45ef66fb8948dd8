#pragma once
// The learner of a trainer, for any network: normalisers, targets, epochs of minibatches, and its saved state.

#include <memory>

#include "envs/env.h"
#include "models/policy.h"
#include "runtime/config/run_config.h"

namespace troupe {

std::unique_ptr<Learner> make_policy_learner(const RunConfig& config, const EnvSpec& env);

}  // namespace troupe
