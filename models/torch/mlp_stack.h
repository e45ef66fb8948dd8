#pragma once
// MlpStack: fully connected layers, forward and backward, written by hand: at the sizes of control policies, autograd's
// bookkeeping costs as much as the arithmetic. Works in its own buffers, which grow to the largest batch seen. Used by
// one thread at a time. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "models/torch/activation.h"
#include "models/torch/device_weights.h"

namespace troupe {

class MlpStack {
 public:
  // No layers: the result of run() is its input.
  explicit MlpStack(Activation activation = Activation::tanh) : activation_(activation) {}
  // Layers `prefix`.0 to `prefix`.(count - 1) with activations.
  MlpStack(const DeviceWeights& weights, const std::string& prefix, size_t count, Activation activation);

  // Adds the layer `name`. `weights` must outlive this.
  void add(const DeviceWeights& weights, const std::string& name, bool activated);
  bool empty() const { return layers_.empty(); }

  // [B, inputs] -> [B, outputs]. The result stays valid, and run_back() may be called, until the next run().
  at::Tensor run(at::Tensor x);
  // Adds to the gradients of the layers, and calls `complete`, if there is one, after each of them. Returns the
  // gradient of the input, undefined unless needed.
  using Complete = std::function<void(ElementRange)>;
  at::Tensor run_back(at::Tensor gradient, bool need_input_gradient, const Complete& complete = {});

 private:
  struct Layer {
    at::Tensor weight, transposed, bias;  // [out, in], [in, out], [out]
    at::Tensor weight_gradient, bias_gradient, transposed_gradient;
    at::Tensor input;         // of the last forward
    at::Tensor sums, output;  // before and after the activation; `sums` only where its derivative needs it
    at::Tensor input_gradient;
    ElementRange weight_elements, bias_elements;
    bool activated = false;
  };

  void add_weight_gradient(Layer& layer, const at::Tensor& gradient) const;
  void activate(Layer& layer) const;
  at::Tensor activation_gradient(Layer& layer, const at::Tensor& gradient) const;

  Activation activation_;
  std::vector<Layer> layers_;
};

}  // namespace troupe
