#pragma once
// Computes the layers that a LayerStack describes. Includes LibTorch: for the sources of models/ only. Used by one
// thread at a time.

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/networks/layer_stack.h"
#include "models/torch/activation.h"
#include "models/torch/leaves.h"

namespace troupe {

class NetLayers {
 public:
  NetLayers(const std::vector<NetLayer>& layers, Leaves& leaves, Activation activation);

  // [B, features] from [B, ...].
  at::Tensor run(at::Tensor x) const;

 private:
  struct Layer {
    NetLayer plan;
    at::Tensor weight, bias;  // undefined where there is none
  };
  at::Tensor run_layer(const Layer& layer, const at::Tensor& x) const;

  std::vector<Layer> layers_;
  Activation activation_;
};

}  // namespace troupe
