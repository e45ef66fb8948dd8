#pragma once
// The stager of a policy learner. Includes LibTorch: for the sources of models/ only.

#include <memory>

#include "envs/env.h"
#include "models/learning/learner_config.h"
#include "models/policy.h"
#include "models/torch/replica.h"

namespace troupe {

// Of batches for updates of this replica, which it only looks at now. `on_device`: for DeviceForm, else for HostForm.
std::shared_ptr<const Stager> make_policy_stager(const LearnerConfig& config, const EnvSpec& env,
                                                 const Replica& replica, bool on_device);

}  // namespace troupe
