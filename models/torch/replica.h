#pragma once
// Replica: a model that can compute: its weights, their copy on a device, its network and the encoder of its
// observations. Policies and learners are built on it. Used by one thread at a time. Includes LibTorch: for the sources
// of models/ only.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "envs/env.h"
#include "models/heads/heads.h"
#include "models/learning/learner_config.h"
#include "models/networks/inputs.h"
#include "models/networks/network_layout.h"
#include "models/torch/network.h"
#include "models/weights/model_weights.h"

namespace troupe {

struct Replica {
  // Without weights: require_weights() or load() comes before any use of them. `own_memory`: as DeviceWeights has it.
  Replica(const LearnerConfig& config, const EnvSpec& env, at::Device at, bool with_gradients, bool own_memory = false);
  // The same with another network than that of model.kind.
  Replica(const LearnerConfig& config, const EnvSpec& env, const NetworkDefinition& definition, at::Device at,
          bool with_gradients, bool own_memory = false);
  // `device` and `network` refer to `weights`.
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // Draws the first weights of config.seed if none were loaded. Not done before they are needed: it takes seconds for
  // large networks, and most replicas load other weights at once.
  void require_weights();
  // Both load as WeightBlock does, and upload to the device.
  void load(const WeightSnapshot& snapshot);
  void load(const std::map<std::string, Array>& tensors);

  // The host weights have changed: uploads them.
  void follow_weights();

  // How the current weights normalise observations.
  FeatureScaling scaling() const;
  // [D] of continuous actions, else empty.
  std::span<const float> log_std() const;
  // On the device; on the CPU they share the arrays' memory.
  std::vector<at::Tensor> tensors_of(const std::vector<Array>& inputs) const;

  const uint64_t seed;
  const ModelConfig config;
  const NetworkLayout layout;
  const Head head;
  const InputEncoder encoder;
  WeightBlock weights;
  DeviceWeights device;
  std::unique_ptr<Network> network;
  bool has_weights = false;  // drawn or loaded
};

std::span<const float> floats_of(const at::Tensor& tensor);
// A copy on the CPU, once the device has computed the tensor; on the CPU the tensor itself.
at::Tensor on_host(const at::Tensor& tensor);
// Shares the array's memory. The result must not be written to.
at::Tensor tensor_view(const Array& array);

}  // namespace troupe
