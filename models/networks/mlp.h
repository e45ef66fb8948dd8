#pragma once
// Mlp: forward and backward of an MLP policy with a value function, written by hand: at the sizes of control policies,
// autograd's bookkeeping costs as much as the arithmetic. Works in its own buffers, which grow to the largest batch
// seen. Used by one thread at a time. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "models/networks/activation.h"
#include "models/networks/device_weights.h"
#include "models/networks/model_config.h"
#include "models/networks/network.h"

namespace troupe {

class Mlp final : public Network {
 public:
  Mlp(const ModelConfig& config, const DeviceWeights& weights);

  NetworkOutput forward(const NetworkInput& input, bool backward_follows) override;
  at::Tensor values(const NetworkInput& input) override;
  void backward(const at::Tensor& policy_gradients, const at::Tensor& value_gradients) override;

 private:
  struct Layer {
    at::Tensor weight, transposed, bias;  // [out, in], [in, out], [out]
    at::Tensor weight_gradient, bias_gradient, transposed_gradient;
    at::Tensor input;         // of the last forward
    at::Tensor sums, output;  // before and after the activation; `sums` only where its derivative needs it
    at::Tensor input_gradient;
    bool activated = false;
  };
  using Stack = std::vector<Layer>;

  Layer make_layer(const DeviceWeights& weights, const std::string& name, bool activated) const;
  Stack make_trunk(const DeviceWeights& weights, const std::string& prefix, size_t layers) const;
  at::Tensor run(Stack& stack, at::Tensor x) const;
  at::Tensor run_back(Stack& stack, at::Tensor gradient, bool need_input_gradient) const;
  void add_weight_gradient(Layer& layer, const at::Tensor& gradient) const;
  void activate(Layer& layer) const;
  at::Tensor activation_gradient(Layer& layer, const at::Tensor& gradient) const;

  Activation activation_;
  bool shared_;
  Stack trunk_;   // shared only
  Stack policy_;  // the last layer is the head
  Stack value_;
};

}  // namespace troupe
