#pragma once
// The learner of a trainer, for any network: normalisers, targets, epochs of minibatches, and its saved state.

#include <memory>

#include "envs/env.h"
#include "models/learner_config.h"
#include "models/learning/gradient_reducer.h"
#include "models/policy.h"

namespace troupe {

struct LearnerOptions {
  GradientReducer reducer;  // between backward and optimizer step; none = each step has its own gradients
  // The form of updates that other devices have (models/learning/update_form.h), on the CPU as well. For tests.
  bool device_form = false;
};

std::unique_ptr<Learner> make_policy_learner(const LearnerConfig& config, const EnvSpec& env,
                                             LearnerOptions options = {});

}  // namespace troupe
