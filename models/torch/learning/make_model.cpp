#include "models/torch/learning/make_model.h"

#include "models/learning/environment_rules.h"
#include "models/torch/learning/network_learner.h"
#include "models/torch/network_policy.h"

namespace troupe {

std::unique_ptr<Policy> make_policy(const LearnerConfig& config, const EnvSpec& env, const std::string& device) {
  check_fit(config, env);
  return make_network_policy(config, env, device);
}

std::unique_ptr<Learner> make_learner(const LearnerConfig& config, const EnvSpec& env) {
  check_fit(config, env);
  return make_network_learner(config, env);
}

}  // namespace troupe
