#pragma once
// Replica: a model that can compute: its weights, their copy on a device, its network and how that reads observations.
// What a policy and a learner have in common. Used by one thread at a time. Includes LibTorch: for the sources of
// models/ only.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "envs/env.h"
#include "models/heads/heads.h"
#include "models/learner_config.h"
#include "models/networks/inputs.h"
#include "models/networks/network.h"
#include "models/networks/network_layout.h"
#include "models/weights/model_weights.h"

namespace troupe {

struct Replica {
  // With gradients, the first weights of config.seed; without, zeros. `own_memory`: as DeviceWeights has it.
  Replica(const LearnerConfig& config, const EnvSpec& env, at::Device at, bool with_gradients, bool own_memory = false);
  // `device` and `network` refer to `weights`.
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // How observations are normalised by the present weights.
  FeatureScaling scaling() const;
  // [D] of continuous actions, else empty.
  std::span<const float> log_std() const;
  // On the device; on the CPU they share the arrays' memory.
  std::vector<at::Tensor> tensors_of(const std::vector<Array>& inputs) const;

  const ModelConfig config;
  const NetworkLayout layout;
  const Head head;
  const InputEncoder encoder;
  WeightBlock weights;
  DeviceWeights device;
  std::unique_ptr<Network> network;
};

std::span<const float> floats_of(const at::Tensor& tensor);
// The array's own memory, which nobody may write through the result.
at::Tensor tensor_view(const Array& array);

}  // namespace troupe
