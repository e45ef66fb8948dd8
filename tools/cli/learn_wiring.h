#pragma once
// The real parts of a run for a process that computes: environments, LibTorch policies and learners.

#include <memory>

#include "actors/wiring.h"
#include "models/policy.h"

namespace troupe {

// Throws ConfigError when the environment or the model does not fit the config.
std::shared_ptr<Wiring> learn_wiring(const RunConfig& config);

std::unique_ptr<Learner> learner_of(const Wiring& wiring);

}  // namespace troupe
