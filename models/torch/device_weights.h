#pragma once
// DeviceWeights: a model's parameters and the gradients of those that are trained on a device, as views into two flat
// tensors laid out as a WeightBlock's parameters. Used by one thread at a time. Includes LibTorch: for the sources of
// models/ only.

#include <ATen/core/Tensor.h>

#include <string>

#include "models/shards/element_range.h"
#include "models/torch/paged_tensor.h"
#include "models/weights/weight_block.h"

namespace troupe {

// The device with the name "cpu", "cuda" or "cuda:N". Throws ConfigError, which begins with `setting`, for another name
// and for a device that does not exist.
at::Device find_device(const std::string& name, const std::string& setting);

// Some elements of a flat tensor, which share its memory.
at::Tensor slice_of(const at::Tensor& flat, ElementRange elements);

class DeviceWeights {
 public:
  // On the CPU the parameters are the block's own memory, unless `own_memory`; elsewhere they are a copy. `block` must
  // outlive this. `paged`: memory of gradients can be given back; only on the CPU.
  DeviceWeights(WeightBlock& block, at::Device device, bool with_gradients, bool own_memory = false,
                bool paged = false);
  DeviceWeights(const DeviceWeights&) = delete;
  DeviceWeights& operator=(const DeviceWeights&) = delete;

  at::Device device() const { return device_; }
  at::Tensor parameter(const std::string& name) const { return view(parameters_, name); }
  // Throws InvariantError unless has_gradient().
  at::Tensor gradient(const std::string& name) const;
  // Whether `name` is a parameter, and where it starts in parameters() and gradients().
  bool has(const std::string& name) const;
  size_t offset(const std::string& name) const;
  // Of a trained parameter, padding included.
  ElementRange elements(const std::string& name) const;
  // Whether `name` is a trained parameter and there are gradients.
  bool has_gradient(const std::string& name) const;
  // All of them, [n] float32, laid out as the block's parameters, padding (always 0) included. Gradients end with the
  // last parameter that is trained.
  at::Tensor& parameters() { return parameters_; }
  at::Tensor& gradients() { return gradients_.values(); }
  const at::Tensor& gradients() const { return gradients_.values(); }
  bool has_gradients() const { return gradients_.values().defined(); }
  void zero_gradients();
  bool has_paged_gradients() const { return gradients_.is_paged(); }
  // Of paged gradients: makes these 0 and gives their memory back.
  void free_gradients(ElementRange elements) { gradients_.free(elements); }
  // Copies the block's parameters to the device; nothing to do where they are the block's own memory.
  void upload();
  // Copies one of them.
  void upload(const std::string& name);
  // Copies the parameters that are trained back into the block, waiting for the device.
  void download();

 private:
  size_t index_of(const std::string& name) const;
  at::Tensor view(const at::Tensor& flat, const std::string& name) const;
  at::Tensor host_parameters() const;
  at::Tensor trained(const at::Tensor& flat) const;

  WeightBlock& block_;
  at::Device device_;
  bool shared_;  // the parameters are the block's own memory
  at::Tensor parameters_;
  PagedTensor gradients_;
};

}  // namespace troupe
