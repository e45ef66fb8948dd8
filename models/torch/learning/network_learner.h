#pragma once
// The learner of a trainer, for any network: an UpdateLearner whose objective has normalisers, targets, and the
// computation on the host or a device.

#include <memory>

#include "envs/env.h"
#include "models/learning/learner_config.h"
#include "models/policy.h"

namespace troupe {

struct NetworkDefinition;  // models/torch/network.h

struct LearnerOptions {
  // In place of the network of model.kind.
  std::shared_ptr<const NetworkDefinition> network = {};
  // The form of updates that other devices have (models/torch/learning/update_form.h), on the CPU as well. For tests.
  bool device_form = false;
};

std::unique_ptr<Learner> make_network_learner(const LearnerConfig& config, const EnvSpec& env,
                                              const LearnerOptions& options = {});

}  // namespace troupe
