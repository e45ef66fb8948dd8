#pragma once
// The learner of a trainer, for any network: normalisers, targets, epochs of minibatches, and its saved state.

#include <memory>

#include "envs/env.h"
#include "models/learner_config.h"
#include "models/policy.h"

namespace troupe {

std::unique_ptr<Learner> make_policy_learner(const LearnerConfig& config, const EnvSpec& env);

}  // namespace troupe
