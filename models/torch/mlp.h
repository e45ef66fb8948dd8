#pragma once
// Mlp: an MLP policy with a value function, model.kind "mlp". Used by one thread at a time. Includes LibTorch: for the
// sources of models/ only.

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>

#include "models/networks/model_config.h"
#include "models/torch/device_weights.h"
#include "models/torch/mlp_stack.h"
#include "models/torch/network.h"

namespace troupe {

class Mlp final : public Network {
 public:
  Mlp(const ModelConfig& config, const DeviceWeights& weights);

  NetworkOutput forward(const NetworkInput& input, bool backward_follows) override;
  at::Tensor values(const NetworkInput& input) override;
  void backward(const at::Tensor& policy_gradients, const at::Tensor& value_gradients) override;
  void gradients_complete_to(std::function<void(ElementRange)> complete) override { complete_ = std::move(complete); }

 private:
  bool shared_;
  MlpStack trunk_;   // shared only
  MlpStack policy_;  // the last layer is the head
  MlpStack value_;
  MlpStack::Complete complete_;
};

}  // namespace troupe
