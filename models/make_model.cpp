#include "models/make_model.h"

#include "models/environment_rules.h"
#include "models/learning/policy_learner.h"
#include "models/networks/network_policy.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

void check(const LearnerConfig& config, const EnvSpec& env) {
  if (config.model.log_std != "state_independent" && config.model.log_std != "scheduled")
    throw ConfigError("model.log_std: \"" + config.model.log_std + "\", expected one of: state_independent, scheduled");
  check_fit(config, env);
}

}  // namespace

std::unique_ptr<Policy> make_policy(const LearnerConfig& config, const EnvSpec& env, const std::string& device) {
  check(config, env);
  return make_network_policy(config, env, device);
}

std::unique_ptr<Learner> make_learner(const LearnerConfig& config, const EnvSpec& env) {
  check(config, env);
  return make_policy_learner(config, env);
}

}  // namespace troupe
