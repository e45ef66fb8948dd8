#pragma once
// Network: the arithmetic from a model's inputs to the inputs of its heads. Implementations compute with the parameters
// of a DeviceWeights, on its device. Used by one thread at a time. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "envs/env.h"
#include "models/networks/model_config.h"
#include "models/networks/network_layout.h"
#include "models/shards/element_range.h"
#include "models/torch/device_weights.h"

namespace troupe {

// B samples. With recurrent state they are L steps of C sequences, time-major: sample t * C + c is step t of sequence
// c.
struct NetworkInput {
  std::vector<at::Tensor> observations;  // one per input of the layout, each [B, ...]
  at::Tensor state;                      // [C, S] float32 before the first step; undefined without recurrent state
  at::Tensor starts;  // [L, C] bool: an episode begins with this step, so the state is zero before it; undefined = none
  // [B, D] int32 with an autoregressive network, which gives the outputs for each decision after those before it. Those
  // that were not executed may be any number.
  at::Tensor actions;
};

struct NetworkOutput {
  at::Tensor policy;  // [B, P]
  at::Tensor values;  // [B, 1] in units of the value head
  at::Tensor state;   // [C, S] after the last step; undefined without recurrent state
};

class Network {
 public:
  virtual ~Network() = default;
  // The results stay valid, and with `backward_follows` backward() may be called, until the next forward() or values().
  virtual NetworkOutput forward(const NetworkInput& input, bool backward_follows) = 0;
  // Draws decision `decision` of some samples, or without one all decisions, from outputs [B, P]; of those, only the
  // ones that are drawn from have been computed. Returns the actions [B, D], with all decisions that are drawn by now.
  using Draw = std::function<at::Tensor(const at::Tensor& outputs, std::optional<int64_t> decision)>;
  // The same for samples whose actions are not there yet: calls `draw` once, or once for each decision in turn if the
  // network is autoregressive. No backward() follows.
  virtual NetworkOutput act(const NetworkInput& input, const Draw& draw) {
    NetworkOutput output = forward(input, false);
    draw(output.policy, std::nullopt);
    return output;
  }
  // [B, 1] only the values, which may cost less.
  virtual at::Tensor values(const NetworkInput& input) = 0;
  // Adds to the gradients of the parameters, from dL/dpolicy and dL/dvalues of the last forward(). An undefined
  // gradient counts as zeros.
  virtual void backward(const at::Tensor& policy_gradients, const at::Tensor& value_gradients) = 0;
  // Where backward() says of which elements of the gradients it has added its last, each of them at most once, from its
  // own thread. Networks that autograd differentiates say it on the CPU alone.
  virtual void gradients_complete_to(std::function<void(ElementRange)> /*complete*/) {}
  // The parameters have changed since the last pass. Called before the next one, and before the first.
  virtual void weights_changed() {}
};

// A network that can be made any number of times.
struct NetworkDefinition {
  NetworkLayout layout;
  // `weights`, of the layout, must outlive the network.
  std::function<std::unique_ptr<Network>(const DeviceWeights& weights)> make;
};

// The network of model.kind for an environment. Throws ConfigError naming the setting that does not fit.
NetworkDefinition define_network(const ModelConfig& config, const EnvSpec& env);
// Makes that network. `weights`, of the same kind's layout, must outlive it.
std::unique_ptr<Network> make_network(const ModelConfig& config, const EnvSpec& env, const DeviceWeights& weights);

}  // namespace troupe
