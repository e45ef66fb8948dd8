#include "models/networks/mlp_layout.h"

#include <numbers>
#include <numeric>
#include <string>
#include <utility>

#include "models/heads/heads.h"
#include "models/networks/inputs.h"

namespace troupe {

int64_t add_all_observations(NetworkLayout& layout, const EnvSpec& env) {
  NetworkInputSpec all;
  all.observations.resize(env.observations.size());
  std::iota(all.observations.begin(), all.observations.end(), size_t{0});
  layout.inputs.push_back(std::move(all));
  return InputEncoder(env.observations, layout.inputs).features();
}

int64_t add_mlp_trunk(NetworkLayout& layout, const std::string& prefix, const ModelConfig& config, int64_t features,
                      TensorGroup group) {
  int64_t inputs = features;
  for (size_t i = 0; i < config.hidden.size(); ++i) {
    add_linear(layout, prefix + '.' + std::to_string(i), config.hidden[i], inputs, group, std::numbers::sqrt2);
    inputs = config.hidden[i];
  }
  return inputs;
}

NetworkLayout mlp_layout(const ModelConfig& config, const EnvSpec& env) {
  NetworkLayout layout;
  const int64_t features = add_all_observations(layout, env);
  const int64_t top = config.hidden.empty() ? features : config.hidden.back();
  if (config.shared_trunk) {
    add_mlp_trunk(layout, "trunk", config, features, TensorGroup::policy);
  } else {
    add_mlp_trunk(layout, "policy", config, features, TensorGroup::policy);
    add_mlp_trunk(layout, "value", config, features, TensorGroup::value);
  }
  add_linear(layout, "policy.head", Head(env.action).outputs(), top, TensorGroup::policy, config.policy_gain);
  layout.value_head = add_linear(layout, "value.head", 1, top, TensorGroup::value, 1.0);
  return layout;
}

}  // namespace troupe
