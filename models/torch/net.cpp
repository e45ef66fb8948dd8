#include "models/torch/net.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

// Autograd cannot keep tensors that were made in inference mode.
at::Tensor kept(const at::Tensor& x) { return x.defined() && x.is_inference() ? x.clone() : x; }

NetworkInput kept(const NetworkInput& input) {
  NetworkInput result;
  for (const at::Tensor& each : input.observations) result.observations.push_back(kept(each));
  result.state = kept(input.state);
  result.starts = kept(input.starts);
  return result;
}

}  // namespace

Net::Net(const NetPlan& plan, const ModelConfig& config, const DeviceWeights& weights)
    : leaves_(weights),
      trunk_(plan.trunk, leaves_, find_activation(config.activation)),
      policy_head_{leaves_.leaf("policy.head.weight"), leaves_.leaf("policy.head.bias")},
      value_head_{leaves_.leaf("value.head.weight"), leaves_.leaf("value.head.bias")} {
  const Activation activation = find_activation(config.activation);
  for (const std::vector<NetLayer>& layers : plan.encoders) encoders_.emplace_back(layers, leaves_, activation);
  if (plan.core != Core::none) core_.emplace(plan.core, plan.core_size, leaves_);
  if (plan.separate_values) value_trunk_.emplace(plan.value_trunk, leaves_, activation);
}

NetworkOutput Net::forward(const NetworkInput& input, bool backward_follows) {
  policy_ = values_ = at::Tensor();  // frees the graph of a forward that no backward followed
  if (!backward_follows) {
    const c10::InferenceMode guard;
    return run(input);
  }
  const c10::AutoGradMode guard(true);
  const NetworkOutput output = run(kept(input));
  policy_ = output.policy;
  values_ = output.values;
  return {policy_.detach(), values_.detach(), output.state.defined() ? output.state.detach() : at::Tensor()};
}

at::Tensor Net::values(const NetworkInput& input) {
  const c10::InferenceMode guard;
  const at::Tensor encoded = encode(input);
  const bool own_trunk = value_trunk_ && !core_;  // then values do not need the policy's trunk
  return run_values(encoded, own_trunk ? at::Tensor() : run_trunk(input, encoded).features);
}

void Net::backward(const at::Tensor& policy_gradients, const at::Tensor& value_gradients) {
  TROUPE_CHECK(policy_.defined() && (policy_.requires_grad() || values_.requires_grad()));
  torch::autograd::variable_list outputs, gradients;
  const auto add = [&](const at::Tensor& output, const at::Tensor& gradient) {
    if (!gradient.defined() || !output.requires_grad()) return;  // it depends on frozen parameters only
    outputs.push_back(output);
    gradients.push_back(gradient);
  };
  add(policy_, policy_gradients);
  add(values_, value_gradients);
  if (!outputs.empty()) torch::autograd::backward(outputs, gradients);
  policy_ = values_ = at::Tensor();
}

at::Tensor Net::encode(const NetworkInput& input) const {
  TROUPE_CHECK(input.observations.size() == encoders_.size(), input.observations.size(), encoders_.size());
  std::vector<at::Tensor> features;
  for (size_t i = 0; i < encoders_.size(); ++i) features.push_back(encoders_[i].run(input.observations[i]));
  return features.size() == 1 ? features.front() : at::cat(features, 1);
}

RecurrentCore::Output Net::run_trunk(const NetworkInput& input, const at::Tensor& encoded) const {
  const at::Tensor features = trunk_.run(encoded);
  return core_ ? core_->run(features, input.state, input.starts) : RecurrentCore::Output{features, {}};
}

at::Tensor Net::run_values(const at::Tensor& encoded, const at::Tensor& features) const {
  at::Tensor x = features;
  if (value_trunk_) x = value_trunk_->run(core_ ? features : encoded);
  return at::linear(x, value_head_.weight, value_head_.bias);
}

NetworkOutput Net::run(const NetworkInput& input) const {
  const at::Tensor encoded = encode(input);
  const auto [features, state] = run_trunk(input, encoded);
  return {at::linear(features, policy_head_.weight, policy_head_.bias), run_values(encoded, features), state};
}

}  // namespace troupe
