#include "models/networks/mlp.h"

#include <cstdlib>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "models/heads/vector_math.h"
#include "models/make_model.h"
#include "runtime/base/errors.h"

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

void set_compute_threads(int threads) { at::set_num_threads(threads); }

void compute_reproducibly() {
  // MKL chooses its kernels by how operands are aligned, unless this is set before its first call. The user's own choice stays.
  // NOLINTNEXTLINE(concurrency-mt-unsafe): called before there are other threads
  setenv("MKL_CBWR", "AUTO", /*overwrite=*/0);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  at::set_num_threads(1);
}

at::Device find_device(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  const std::string digits = name.starts_with("cuda:") ? name.substr(5) : name == "cuda" ? "0" : "";
  if (digits.empty() || digits.size() > 3 || digits.find_first_not_of("0123456789") != std::string::npos)
    throw ConfigError("trainer.device: \"" + name + "\", expected \"cpu\", \"cuda\" or \"cuda:N\"");
  const int count = at::hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
  if (std::stoi(digits) >= count)
    throw ConfigError("trainer.device: \"" + name + "\", but this machine and LibTorch have " + std::to_string(count) +
                      " CUDA devices; use \"cpu\"");
  return {at::kCUDA, static_cast<at::DeviceIndex>(std::stoi(digits))};
}

DeviceWeights::DeviceWeights(WeightBlock& block, at::Device device, bool with_gradients)
    : block_(block), device_(device) {
  const std::span<float> host = block.parameters();
  const auto count = static_cast<int64_t>(host.size());
  const auto options = at::TensorOptions().dtype(at::kFloat);
  parameters_ = at::from_blob(host.data(), {count}, options);
  if (!device.is_cpu()) parameters_ = parameters_.to(device);
  if (!with_gradients) return;
  gradients_ = at::zeros({count}, options.device(device));
  host_gradients_ = device.is_cpu() ? gradients_ : at::zeros({count}, options);
}

// The index of a parameter, or their number.
size_t DeviceWeights::index_of(const std::string& name) const {
  size_t i = 0;
  while (i < block_.parameter_count() && block_.signature()->tensors[i].name != name) ++i;
  return i;
}

bool DeviceWeights::has(const std::string& name) const { return index_of(name) < block_.parameter_count(); }

size_t DeviceWeights::offset(const std::string& name) const {
  if (!has(name)) throw InvariantError("the model has no parameter " + name);
  return block_.parameter_offset(index_of(name));
}

at::Tensor DeviceWeights::view(const at::Tensor& flat, const std::string& name) const {
  const auto begin = static_cast<int64_t>(offset(name));
  const Shape& shape = block_.signature()->tensors[index_of(name)].shape;
  return flat.narrow(0, begin, shape.elements()).view(at::IntArrayRef(shape.begin(), shape.end()));
}

void DeviceWeights::zero_gradients() { gradients_.zero_(); }

void DeviceWeights::upload() {
  if (device_.is_cpu()) return;
  const std::span<float> host = block_.parameters();
  parameters_.copy_(
      at::from_blob(host.data(), {static_cast<int64_t>(host.size())}, at::TensorOptions().dtype(at::kFloat)));
}

std::span<float> DeviceWeights::host_gradients() {
  if (!device_.is_cpu()) host_gradients_.copy_(gradients_);
  return {host_gradients_.mutable_data_ptr<float>(), static_cast<size_t>(host_gradients_.numel())};
}

Activation find_activation(const std::string& name) {
  if (name == "tanh") return Activation::tanh;
  if (name == "relu") return Activation::relu;
  if (name == "elu") return Activation::elu;
  if (name == "gelu") return Activation::gelu;
  if (name == "silu") return Activation::silu;
  throw ConfigError("model.activation: \"" + name + "\", expected one of: tanh, relu, elu, gelu, silu");
}

Mlp::Mlp(const ModelConfig& config, const DeviceWeights& weights)
    : activation_(find_activation(config.activation)), shared_(config.shared_trunk) {
  const size_t layers = config.hidden.size();
  if (shared_) {
    trunk_ = make_trunk(weights, "trunk", layers);
  } else {
    policy_ = make_trunk(weights, "policy", layers);
    value_ = make_trunk(weights, "value", layers);
  }
  policy_.push_back(make_layer(weights, "policy.head", false));
  value_.push_back(make_layer(weights, "value.head", false));
}

Mlp::Layer Mlp::make_layer(const DeviceWeights& weights, const std::string& name, bool activated) const {
  Layer layer;
  layer.weight = weights.parameter(name + ".weight");
  layer.transposed = layer.weight.t();
  layer.bias = weights.parameter(name + ".bias");
  if (weights.has_gradients()) {
    layer.weight_gradient = weights.gradient(name + ".weight");
    layer.bias_gradient = weights.gradient(name + ".bias");
  }
  layer.activated = activated;
  return layer;
}

Mlp::Stack Mlp::make_trunk(const DeviceWeights& weights, const std::string& prefix, size_t layers) const {
  Stack result;
  for (size_t i = 0; i < layers; ++i) result.push_back(make_layer(weights, prefix + '.' + std::to_string(i), true));
  return result;
}

Mlp::Output Mlp::forward(const at::Tensor& inputs) {
  const c10::InferenceMode guard;
  const at::Tensor x = shared_ ? run(trunk_, inputs) : inputs;
  return {run(policy_, x), run(value_, x)};
}

at::Tensor Mlp::forward_values(const at::Tensor& inputs) {
  const c10::InferenceMode guard;
  return run(value_, shared_ ? run(trunk_, inputs) : inputs);
}

at::Tensor Mlp::run(Stack& stack, at::Tensor x) const {
  for (Layer& layer : stack) {
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

void Mlp::activate(Layer& layer) const {
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
at::Tensor Mlp::activation_gradient(Layer& layer, const at::Tensor& gradient) const {
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

void Mlp::backward(const at::Tensor& policy_gradients, const at::Tensor& value_gradients) {
  const c10::InferenceMode guard;
  at::Tensor top;
  if (value_gradients.defined()) top = run_back(value_, value_gradients, shared_);
  if (policy_gradients.defined()) {
    const at::Tensor from_policy = run_back(policy_, policy_gradients, shared_);
    if (shared_) top = top.defined() ? top.add_(from_policy) : from_policy;
  }
  if (shared_ && !trunk_.empty() && top.defined()) run_back(trunk_, top, false);
}

// dL/dW += gradient^T input. Few inputs are multiplied the other way around: MKL is five times slower on a result of few columns
// than on one of few rows.
void Mlp::add_weight_gradient(Layer& layer, const at::Tensor& gradient) const {
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

at::Tensor Mlp::run_back(Stack& stack, at::Tensor gradient, bool need_input_gradient) const {
  for (size_t i = stack.size(); i-- > 0;) {
    Layer& layer = stack[i];
    // The next layer's weight gradient read this output as its input: activation_gradient() may now overwrite it.
    if (layer.activated) gradient = activation_gradient(layer, gradient);
    add_weight_gradient(layer, gradient);
    layer.bias_gradient.add_(gradient.sum(0));
    if (i == 0 && !need_input_gradient) return {};
    shape_like(layer.input_gradient, gradient.size(0), layer.weight.size(1), gradient);
    at::mm_out(layer.input_gradient, gradient, layer.weight);
    gradient = layer.input_gradient;
  }
  return gradient;
}

}  // namespace troupe
