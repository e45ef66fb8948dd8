#pragma once
// NetworkLayout: the description of a network as plain values: its parameters, how it reads observations, and the size
// of its recurrent state per row. Known without building the network and without LibTorch. Any thread.

#include <cstdint>
#include <map>
#include <memory>
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
  // Policy, value, frozen or buffer. What policy and value function share belongs to the policy.
  TensorGroup group = TensorGroup::policy;
  double gain = 0.0;   // of the orthogonal first values, over [first dimension, the others]
  double start = 0.0;  // every element's first value without a gain
  // The first values of equal blocks of the tensor, one after another, where they are not all `start`.
  std::vector<double> start_blocks = {};
};

// One input of a network: the numbers of some observations side by side, or one observation as the environment gives
// it.
struct NetworkInputSpec {
  std::vector<size_t> observations;  // indices in EnvSpec::observations
  bool numbers = true;               // [B, O] float32: flattened, bytes scaled to [0, 1], normalised
};

// The tensors of a fully connected layer, by name.
struct LinearTensors {
  std::string weight;  // [outputs, inputs]
  std::string bias;    // [outputs]
};

struct NetworkLayout {
  std::vector<NetworkTensor> tensors;  // in any order
  // The last layer of the value function, of one output: a learner that changes the units of values rescales it.
  LinearTensors value_head;
  std::vector<NetworkInputSpec> inputs;
  int64_t state_size = 0;       // numbers of recurrent state per row; 0 = none
  bool autoregressive = false;  // the outputs for a decision depend on the decisions before it
  int64_t units = 0;            // outputs of all layers together, per sample: what a forward keeps for its backward
  // Weights that take the place of the drawn first values, by name; those that the model lacks are ignored. Null =
  // none.
  std::shared_ptr<const std::map<std::string, Array>> begins_with;
};

// The layout of model.kind. Throws ConfigError naming the setting that does not fit.
NetworkLayout network_layout(const ModelConfig& config, const EnvSpec& env);

// Adds a fully connected layer: `name`.weight [outputs, inputs] and `name`.bias [outputs].
LinearTensors add_linear(NetworkLayout& layout, const std::string& name, int64_t outputs, int64_t inputs,
                         TensorGroup group, double gain);

}  // namespace troupe
