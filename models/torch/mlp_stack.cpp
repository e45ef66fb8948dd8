#include "models/torch/mlp_stack.h"

#include <ATen/ATen.h>

#include <utility>

#include "models/heads/vector_math.h"

namespace troupe {

namespace {

// Grows or shrinks a reused buffer; memory is kept.
void shape_like(at::Tensor& buffer, int64_t rows, int64_t columns, const at::Tensor& like) {
  if (!buffer.defined())
    buffer = at::empty({rows, columns}, like.options());
  else if (buffer.size(0) != rows)
    buffer.resize_({rows, columns});
}

}  // namespace

MlpStack::MlpStack(const DeviceWeights& weights, const std::string& prefix, size_t count, Activation activation)
    : activation_(activation) {
  for (size_t i = 0; i < count; ++i) add(weights, prefix + '.' + std::to_string(i), true);
}

void MlpStack::add(const DeviceWeights& weights, const std::string& name, bool activated) {
  Layer layer;
  layer.weight = weights.parameter(name + ".weight");
  layer.transposed = layer.weight.t();
  layer.bias = weights.parameter(name + ".bias");
  if (weights.has_gradients()) {
    layer.weight_gradient = weights.gradient(name + ".weight");
    layer.bias_gradient = weights.gradient(name + ".bias");
    layer.weight_elements = weights.elements(name + ".weight");
    layer.bias_elements = weights.elements(name + ".bias");
  }
  layer.activated = activated;
  layers_.push_back(std::move(layer));
}

at::Tensor MlpStack::run(at::Tensor x) {
  for (Layer& layer : layers_) {
    layer.input = x;
    const bool keep_sums = layer.activated && (activation_ == Activation::gelu || activation_ == Activation::silu);
    at::Tensor& sums = keep_sums ? layer.sums : layer.output;
    shape_like(sums, x.size(0), layer.weight.size(0), x);
    at::addmm_out(sums, layer.bias, x, layer.transposed);
    if (layer.activated) activate(layer);
    x = layer.output;
  }
  return x;
}

void MlpStack::activate(Layer& layer) const {
  switch (activation_) {
    case Activation::tanh:
      if (layer.output.is_cpu())
        tanh_in_place(layer.output.mutable_data_ptr<float>(), layer.output.numel());
      else
        layer.output.tanh_();
      return;
    case Activation::relu: layer.output.relu_(); return;
    case Activation::elu: at::elu_(layer.output); return;
    case Activation::gelu:
      shape_like(layer.output, layer.sums.size(0), layer.sums.size(1), layer.sums);
      at::gelu_out(layer.output, layer.sums);
      return;
    case Activation::silu:
      shape_like(layer.output, layer.sums.size(0), layer.sums.size(1), layer.sums);
      at::silu_out(layer.output, layer.sums);
      return;
  }
}

// dL/dsums from dL/doutput. May overwrite `output` of the layer, which nothing needs afterwards.
at::Tensor MlpStack::activation_gradient(Layer& layer, const at::Tensor& gradient) const {
  at::Tensor& out = layer.output;
  switch (activation_) {
    case Activation::tanh: return at::tanh_backward_out(out, gradient, out);
    case Activation::relu: return at::threshold_backward_out(out, gradient, out, 0);
    case Activation::elu: return at::elu_backward_out(out, gradient, 1, 1, 1, /*is_result=*/true, out);
    case Activation::gelu: return at::gelu_backward_out(out, gradient, layer.sums);
    case Activation::silu: return at::silu_backward_out(out, gradient, layer.sums);
  }
  return {};
}

// dL/dW += gradient^T input. With few inputs the transposed product is computed: MKL takes five times as long for a
// result with few columns as for one with few rows.
void MlpStack::add_weight_gradient(Layer& layer, const at::Tensor& gradient) const {
  constexpr int64_t kFewInputs = 32;
  const int64_t inputs = layer.weight.size(1), outputs = layer.weight.size(0);
  if (inputs >= kFewInputs || outputs <= inputs) {
    at::addmm_out(layer.weight_gradient, layer.weight_gradient, gradient.t(), layer.input);
    return;
  }
  shape_like(layer.transposed_gradient, inputs, outputs, gradient);
  at::mm_out(layer.transposed_gradient, layer.input.t(), gradient);
  layer.weight_gradient.add_(layer.transposed_gradient.t());
}

// The gradients of the weights come before that of the input, so that other ranks can have them meanwhile.
at::Tensor MlpStack::run_back(at::Tensor gradient, bool need_input_gradient, const Complete& complete) {
  for (size_t i = layers_.size(); i-- > 0;) {
    Layer& layer = layers_[i];
    // The next layer's weight gradient read this output as its input: activation_gradient() may now overwrite it.
    if (layer.activated) gradient = activation_gradient(layer, gradient);
    add_weight_gradient(layer, gradient);
    layer.bias_gradient.add_(gradient.sum(0));
    if (complete) {
      complete(layer.weight_elements);
      complete(layer.bias_elements);
    }
    if (i == 0 && !need_input_gradient) return {};
    shape_like(layer.input_gradient, gradient.size(0), layer.weight.size(1), gradient);
    at::mm_out(layer.input_gradient, gradient, layer.weight);
    gradient = layer.input_gradient;
  }
  return gradient;
}

}  // namespace troupe
