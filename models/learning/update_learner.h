#pragma once
// UpdateLearner: the learner of a trainer, for any objective: epochs of minibatches, early stop, KL control, schedules,
// metrics, and the saved state. One thread.

#include <memory>

#include "models/learning/learner_config.h"
#include "models/learning/objective.h"
#include "models/policy.h"

namespace troupe {

std::unique_ptr<Learner> make_update_learner(const LearnerConfig& config, std::unique_ptr<Objective> objective);

}  // namespace troupe
