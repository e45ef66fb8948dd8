#pragma once
// Net: the network that model.net describes (models/networks/net_layout.h), computed by LibTorch and differentiated by
// its autograd. Used by one thread at a time. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "models/networks/net_layout.h"
#include "models/torch/leaves.h"
#include "models/torch/net_layers.h"
#include "models/torch/network.h"
#include "models/torch/recurrent_core.h"

namespace troupe {

class Net final : public Network {
 public:
  // `weights`, of the plan's layout, must outlive this.
  Net(const NetPlan& plan, const ModelConfig& config, const DeviceWeights& weights);

  NetworkOutput forward(const NetworkInput& input, bool backward_follows) override;
  at::Tensor values(const NetworkInput& input) override;
  void backward(const at::Tensor& policy_gradients, const at::Tensor& value_gradients) override;
  // Said on the CPU alone.
  void gradients_complete_to(std::function<void(ElementRange)> complete) override {
    leaves_.gradients_complete_to(std::move(complete));
  }

 private:
  struct Linear {
    at::Tensor weight, bias;
  };

  at::Tensor encode(const NetworkInput& input) const;
  // What the policy head reads, with the state after it.
  RecurrentCore::Output run_trunk(const NetworkInput& input, const at::Tensor& encoded) const;
  at::Tensor run_values(const at::Tensor& encoded, const at::Tensor& features) const;
  NetworkOutput run(const NetworkInput& input) const;

  Leaves leaves_;
  std::vector<NetLayers> encoders_;
  NetLayers trunk_;
  std::optional<RecurrentCore> core_;
  std::optional<NetLayers> value_trunk_;
  Linear policy_head_, value_head_;
  at::Tensor policy_, values_;  // of the last forward, with its graph when a backward follows
};

}  // namespace troupe
