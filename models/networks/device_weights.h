#pragma once
// DeviceWeights: a model's parameters and their gradients on a device, as views into two flat tensors laid out as a WeightBlock's
// parameters. Used by one thread at a time. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <span>
#include <string>

#include "models/weights/weight_block.h"

namespace troupe {

// The device with the name "cpu", "cuda" or "cuda:N". Throws ConfigError for another name and for a device that is not there.
at::Device find_device(const std::string& name);

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

}  // namespace troupe
