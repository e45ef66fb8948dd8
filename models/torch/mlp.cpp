#include "models/torch/mlp.h"

#include <ATen/ATen.h>

namespace troupe {

Mlp::Mlp(const ModelConfig& config, const DeviceWeights& weights) : shared_(config.shared_trunk) {
  const Activation activation = find_activation(config.activation);
  const size_t layers = config.hidden.size();
  if (shared_) {
    trunk_ = MlpStack(weights, "trunk", layers, activation);
  } else {
    policy_ = MlpStack(weights, "policy", layers, activation);
    value_ = MlpStack(weights, "value", layers, activation);
  }
  policy_.add(weights, "policy.head", false);
  value_.add(weights, "value.head", false);
}

NetworkOutput Mlp::forward(const NetworkInput& input, bool /*backward_follows*/) {
  const c10::InferenceMode guard;
  const at::Tensor& inputs = input.observations.front();
  const at::Tensor x = shared_ ? trunk_.run(inputs) : inputs;
  return {policy_.run(x), value_.run(x), {}};
}

at::Tensor Mlp::values(const NetworkInput& input) {
  const c10::InferenceMode guard;
  const at::Tensor& inputs = input.observations.front();
  return value_.run(shared_ ? trunk_.run(inputs) : inputs);
}

void Mlp::backward(const at::Tensor& policy_gradients, const at::Tensor& value_gradients) {
  const c10::InferenceMode guard;
  at::Tensor top;
  if (value_gradients.defined()) top = value_.run_back(value_gradients, shared_, complete_);
  if (policy_gradients.defined()) {
    const at::Tensor from_policy = policy_.run_back(policy_gradients, shared_, complete_);
    if (shared_) top = top.defined() ? top.add_(from_policy) : from_policy;
  }
  if (shared_ && !trunk_.empty() && top.defined()) trunk_.run_back(top, false, complete_);
}

}  // namespace troupe
