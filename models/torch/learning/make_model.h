#pragma once
// Makes the models of model.kind: a policy replica for acting and a learner for training, from one config and one
// environment spec, so that their signatures agree. Called before any actor starts; the results move to the thread that
// uses them, which first sets its set_compute_threads().

#include <memory>
#include <string>

#include "envs/env.h"
#include "models/learning/learner_config.h"
#include "models/policy.h"

namespace troupe {

// Both start from the same weights, drawn from config.seed when they are first needed, and not at all where others are
// loaded before that. If only the signature is needed, use model_signature(). Throw ConfigError when the settings do
// not fit the environment or each other, and when a device does not exist: `device` for the policy,
// config.trainer.device for the learner.
std::unique_ptr<Policy> make_policy(const LearnerConfig& config, const EnvSpec& env, const std::string& device = "cpu");
std::unique_ptr<Learner> make_learner(const LearnerConfig& config, const EnvSpec& env);

}  // namespace troupe
