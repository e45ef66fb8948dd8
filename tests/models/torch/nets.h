#pragma once
// Networks for test environments, with random weights and inputs.

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/networks/network_layout.h"
#include "models/torch/device_weights.h"
#include "models/torch/network.h"
#include "models/weights/model_weights.h"
#include "runtime/base/rng.h"
#include "tests/support/torch_test.h"

namespace troupe::test {

using TensorMap = std::map<std::string, torch::Tensor>;

inline torch::Tensor linear(const TensorMap& p, const std::string& name, const torch::Tensor& x) {
  return torch::linear(x, p.at(name + ".weight"), p.at(name + ".bias"));
}

inline EnvSpec env_of(std::vector<ArraySpec> observations, int32_t actions = 3) {
  EnvSpec spec;
  spec.id = "Made-up";
  spec.observations = std::move(observations);
  spec.action.kind = ActionKind::discrete;
  spec.action.bins = {actions};
  return spec;
}

inline ModelConfig net_config(const std::string& json, const std::string& activation = "tanh") {
  ModelConfig config;
  config.kind = "net";
  config.net = json;
  config.activation = activation;
  return config;
}

// A network with the initial weights of `seed` plus noise, so that no bias is 0.
struct NetModel {
  ModelConfig config;
  EnvSpec spec;
  NetworkLayout layout;
  WeightBlock weights;
  DeviceWeights device;
  std::unique_ptr<Network> network;

  NetModel(const ModelConfig& model, const EnvSpec& env, uint64_t seed)
      : config(model),
        spec(env),
        layout(network_layout(config, spec)),
        weights(initial_weights(config, spec, seed)),
        device(weights, at::kCPU, /*with_gradients=*/true),
        network(make_network(config, spec, device)) {
    for (const NetworkTensor& tensor : layout.tensors) {
      Rng rng(derive_key(seed, "move " + tensor.name));
      for (float& x : weights.floats(tensor.name)) x += 0.1f * rng.normal();
    }
  }

  // Copies of the parameters in another precision, as leaves of a new graph.
  TensorMap parameters(at::ScalarType type) const {
    TensorMap result;
    for (const NetworkTensor& tensor : layout.tensors)
      if (tensor.group != TensorGroup::buffer)
        result[tensor.name] = device.parameter(tensor.name).to(type, false, /*copy=*/true).requires_grad_(true);
    return result;
  }
};

// The inputs of a network for `samples` samples: normal numbers, bytes from 0 to 255, other integers below `values`.
inline std::vector<torch::Tensor> random_inputs(const NetModel& model, int64_t samples, uint64_t seed,
                                                int64_t values = 5) {
  std::vector<torch::Tensor> result;
  auto generator = at::detail::createCPUGenerator(derive_key(seed, "inputs"));
  for (const NetworkInputSpec& input : model.layout.inputs) {
    const ArraySpec& spec = model.spec.observations[input.observations.front()];
    std::vector<int64_t> shape(spec.shape.begin(), spec.shape.end());
    if (input.numbers) shape = {spec.shape.elements()};
    shape.insert(shape.begin(), samples);
    if (input.numbers || spec.dtype == DType::f32)
      result.push_back(torch::randn(shape, generator));
    else if (spec.dtype == DType::u8)
      result.push_back(torch::randint(0, 256, shape, generator, torch::kByte));
    else
      result.push_back(
          torch::randint(0, values, shape, generator, spec.dtype == DType::i32 ? torch::kInt : torch::kLong));
  }
  return result;
}

inline torch::Tensor random_tensor(std::vector<int64_t> shape, uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed));
}

// |a - b| / |b|, as vectors.
inline double relative_error(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor wanted = b.to(torch::kDouble), error = a.to(torch::kDouble) - wanted;
  return error.norm().item<double>() / (wanted.norm().item<double>() + 1e-30);
}

}  // namespace troupe::test
