#pragma once
// The real parts of a run for a process that computes: environments, LibTorch policies and learners.

#include <memory>

#include "actors/run_context.h"
#include "models/policy.h"

namespace troupe {

// Throws ConfigError when the environment or the model does not fit the config.
std::shared_ptr<RunContext> learning_context(const RunConfig& config);

std::unique_ptr<Learner> learner_of(const RunContext& context);

}  // namespace troupe
