#pragma once
// A network like model.kind "mlp" without hidden layers, but with other names of the tensors.

#include <memory>
#include <string>
#include <utility>

#include "models/torch/network.h"
#include "tests/support/torch_test.h"

namespace troupe::test {

class LinearNetwork final : public Network {
 public:
  explicit LinearNetwork(const DeviceWeights& weights) : weights_(weights) {}

  NetworkOutput forward(const NetworkInput& input, bool /*backward_follows*/) override {
    input_ = input.observations.front();
    return {run("actor"), run("critic"), {}};
  }
  at::Tensor values(const NetworkInput& input) override {
    input_ = input.observations.front();
    return run("critic");
  }
  void backward(const at::Tensor& policy_gradients, const at::Tensor& value_gradients) override {
    run_back("actor", policy_gradients);
    run_back("critic", value_gradients);
  }

 private:
  at::Tensor run(const std::string& layer) const {
    return at::linear(input_, weights_.parameter(layer + ".matrix"), weights_.parameter(layer + ".offset"));
  }
  void run_back(const std::string& layer, const at::Tensor& gradients) const {
    if (!gradients.defined()) return;
    weights_.gradient(layer + ".matrix").add_(at::mm(gradients.t(), input_));
    weights_.gradient(layer + ".offset").add_(gradients.sum(0));
  }

  const DeviceWeights& weights_;
  at::Tensor input_;
};

// The name of an mlp's tensor in a LinearNetwork: "value.head.weight" -> "critic.matrix".
inline std::string linear_name(std::string name) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  };
  replace("policy.head", "actor");
  replace("value.head", "critic");
  replace(".weight", ".matrix");
  replace(".bias", ".offset");
  return name;
}

// `config` must describe an mlp without hidden layers.
inline std::shared_ptr<const NetworkDefinition> linear_network(const ModelConfig& config, const EnvSpec& env) {
  NetworkLayout layout = network_layout(config, env);
  for (NetworkTensor& tensor : layout.tensors) tensor.name = linear_name(tensor.name);
  layout.value_head = {linear_name(layout.value_head.weight), linear_name(layout.value_head.bias)};
  const auto make = [](const DeviceWeights& weights) { return std::make_unique<LinearNetwork>(weights); };
  return std::make_shared<const NetworkDefinition>(NetworkDefinition{std::move(layout), make});
}

}  // namespace troupe::test
