#pragma once
// What stays the same during one update: learning rates and coefficients, as their schedules say. A pure function; any
// thread.

#include <cstdint>

#include "models/learning/learner_config.h"
#include "models/learning/optimizer.h"
#include "models/learning/token_loss.h"

namespace troupe {

struct UpdateSettings {
  LearningRates rates;
  LossSettings loss;
};

// The settings of an update after `updates` earlier ones. `progress` in [0, 1] is the part of the run that is done;
// `kl_coef` is the current coefficient of the KL penalty.
UpdateSettings update_settings(const LearnerConfig& config, uint64_t updates, double kl_coef, double progress);

}  // namespace troupe
