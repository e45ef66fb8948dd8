#pragma once
// The policy replica of an inference actor or an evaluator, for any network.

#include <memory>

#include "envs/env.h"
#include "models/policy.h"
#include "runtime/config/run_config.h"

namespace troupe {

std::unique_ptr<Policy> make_network_policy(const RunConfig& config, const EnvSpec& env);

}  // namespace troupe
