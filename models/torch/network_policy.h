#pragma once
// The policy replica of an inference actor or an evaluator, for any network.

#include <memory>
#include <string>

#include "envs/env.h"
#include "models/learning/learner_config.h"
#include "models/policy.h"

namespace troupe {

// Throws ConfigError when `device` does not exist.
std::unique_ptr<Policy> make_network_policy(const LearnerConfig& config, const EnvSpec& env, const std::string& device);

}  // namespace troupe
