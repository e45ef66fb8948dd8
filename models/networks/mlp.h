#pragma once
// Mlp: forward and backward of an MLP policy with a value function, written out instead of taped: at the sizes of control
// policies, autograd's bookkeeping costs as much as the arithmetic. Works in its own buffers, which grow to the largest batch
// seen. Used by one thread at a time. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "models/weights/weight_block.h"
#include "runtime/config/run_config.h"

namespace troupe {

// Of "cpu", "cuda" or "cuda:N". Throws ConfigError when the name is none of these or there is no such device.
at::Device find_device(const std::string& name);

// Where a model's tensors live on a device: views into two flat tensors laid out as a WeightBlock's parameters.
class DeviceWeights {
 public:
  // On the CPU the parameters are the block's own memory; elsewhere upload() copies them. `block` must outlive this.
  DeviceWeights(WeightBlock& block, at::Device device, bool with_gradients);

  at::Device device() const { return device_; }
  at::Tensor parameter(const std::string& name) const { return view(parameters_, name); }
  at::Tensor gradient(const std::string& name) const { return view(gradients_, name); }
  // Whether `name` is a parameter, and where it starts in host_gradients().
  bool has(const std::string& name) const;
  size_t offset(const std::string& name) const;
  bool has_gradients() const { return gradients_.defined(); }
  void zero_gradients();
  // Copies the block's parameters to the device; nothing to do on the CPU.
  void upload();
  // The gradients, copied from the device where it is not the CPU; laid out as the block's parameters.
  std::span<float> host_gradients();

 private:
  size_t index_of(const std::string& name) const;
  at::Tensor view(const at::Tensor& flat, const std::string& name) const;

  WeightBlock& block_;
  at::Device device_;
  at::Tensor parameters_;
  at::Tensor gradients_;
  at::Tensor host_gradients_;
};

enum class Activation { tanh, relu, elu, gelu, silu };
// Throws ConfigError naming the ones there are.
Activation find_activation(const std::string& name);

class Mlp {
 public:
  Mlp(const ModelConfig& config, const DeviceWeights& weights);

  struct Output {
    at::Tensor policy;  // [B, P]
    at::Tensor values;  // [B, 1] in units of the value head
  };
  // Both outputs for inputs [B, O] float32. They stay valid, and backward() may follow, until the next forward.
  Output forward(const at::Tensor& inputs);
  // The values alone, for less where the trunks are separate.
  at::Tensor forward_values(const at::Tensor& inputs);
  // Adds to the gradients of the last forward(). An undefined gradient stands for zeros.
  void backward(const at::Tensor& policy_gradients, const at::Tensor& value_gradients);

 private:
  struct Layer {
    at::Tensor weight, transposed, bias;  // [out, in], [in, out], [out]
    at::Tensor weight_gradient, bias_gradient, transposed_gradient;
    at::Tensor input;  // of the last forward
    at::Tensor sums, output,
        input_gradient;  // before and after the activation; `sums` only where its derivative needs it
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
