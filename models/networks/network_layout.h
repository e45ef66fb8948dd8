#pragma once
// NetworkLayout: what a network is made of, as plain values: its parameters, how it reads observations, and how much
// recurrent state a row has. Known without building the network and without LibTorch. Any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "envs/env.h"
#include "models/networks/model_config.h"
#include "runtime/base/array.h"
#include "runtime/weights/weights.h"

namespace troupe {

struct NetworkTensor {
  std::string name;
  Shape shape;  // a matrix is [outputs, inputs]
  // Policy, value or frozen. What policy and value function share belongs to the policy.
  TensorGroup group = TensorGroup::policy;
  double gain = 0.0;   // of the orthogonal first values, over [first dimension, the others]
  double start = 0.0;  // every element's first value where there is no gain
  // The first values of equal blocks of the tensor, one after another, where they are not all `start`.
  std::vector<double> start_blocks = {};
};

// One input of a network: the numbers of some observations side by side, or one observation as the environment gives
// it.
struct NetworkInputSpec {
  std::vector<size_t> observations;  // indices in EnvSpec::observations
  bool numbers = true;               // [B, O] float32: flattened, bytes scaled to [0, 1], normalised
};

struct NetworkLayout {
  std::vector<NetworkTensor> tensors;  // in any order
  std::vector<NetworkInputSpec> inputs;
  int64_t state_size = 0;  // numbers of recurrent state per row; 0 = none
  int64_t units = 0;       // outputs of all layers together, per sample: what a forward keeps for its backward
};

// The layout of model.kind. Throws ConfigError naming the setting that does not fit.
NetworkLayout network_layout(const ModelConfig& config, const EnvSpec& env);

// A fully connected layer: `name`.weight [outputs, inputs] and `name`.bias [outputs].
void add_linear(NetworkLayout& layout, const std::string& name, int64_t outputs, int64_t inputs, TensorGroup group,
                double gain);

}  // namespace troupe
