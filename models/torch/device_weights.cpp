#include "models/torch/device_weights.h"

#include <ATen/ATen.h>

#include "models/devices.h"
#include "models/torch/compute.h"
#include "runtime/base/blocked.h"
#include "runtime/base/errors.h"

namespace troupe {

at::Device find_device(const std::string& name, const std::string& setting) {
  if (name == "cpu") return at::kCPU;
  const std::string digits = name.starts_with("cuda:") ? name.substr(5) : name == "cuda" ? "0" : "";
  if (digits.empty() || digits.size() > 3 || digits.find_first_not_of("0123456789") != std::string::npos)
    throw ConfigError(setting + ": \"" + name + "\", expected \"cpu\", \"cuda\" or \"cuda:N\"");
  require_device(setting, name, gpu_count());
  return {at::kCUDA, static_cast<at::DeviceIndex>(std::stoi(digits))};
}

DeviceWeights::DeviceWeights(WeightBlock& block, at::Device device, bool with_gradients, bool own_memory, bool paged)
    : block_(block),
      device_(device),
      shared_(device.is_cpu() && !own_memory),
      parameters_(shared_ ? host_parameters() : host_parameters().to(device, at::kFloat, false, /*copy=*/true)) {
  if (with_gradients) gradients_ = PagedTensor(static_cast<int64_t>(block.trained().size()), device, paged);
}

// The parameters in the block's own memory.
at::Tensor DeviceWeights::host_parameters() const {
  const std::span<float> host = block_.parameters();
  return at::from_blob(host.data(), {static_cast<int64_t>(host.size())}, at::TensorOptions().dtype(at::kFloat));
}

// The part of all parameters that is trained.
at::Tensor DeviceWeights::trained(const at::Tensor& flat) const {
  return flat.narrow(0, 0, static_cast<int64_t>(block_.trained().size()));
}

// The index of a parameter, or the number of parameters if none has that name.
at::Tensor slice_of(const at::Tensor& flat, ElementRange elements) {
  return flat.slice(0, static_cast<int64_t>(elements.begin), static_cast<int64_t>(elements.end));
}

size_t DeviceWeights::index_of(const std::string& name) const {
  size_t i = 0;
  while (i < block_.parameter_count() && block_.signature()->tensors[i].name != name) ++i;
  return i;
}

bool DeviceWeights::has(const std::string& name) const { return index_of(name) < block_.parameter_count(); }

bool DeviceWeights::has_gradient(const std::string& name) const {
  return has_gradients() && index_of(name) < block_.trained().last;
}

at::Tensor DeviceWeights::gradient(const std::string& name) const {
  if (!has_gradient(name)) throw InvariantError("the model has no gradient of " + name);
  return view(gradients_.values(), name);
}

size_t DeviceWeights::offset(const std::string& name) const {
  if (!has(name)) throw InvariantError("the model has no parameter " + name);
  return block_.parameter_offset(index_of(name));
}

ElementRange DeviceWeights::elements(const std::string& name) const {
  const size_t next = index_of(name) + 1;
  return {offset(name), next < block_.trained().last ? block_.parameter_offset(next) : block_.trained().end};
}

at::Tensor DeviceWeights::view(const at::Tensor& flat, const std::string& name) const {
  const auto begin = static_cast<int64_t>(offset(name));
  const Shape& shape = block_.signature()->tensors[index_of(name)].shape;
  return flat.narrow(0, begin, shape.elements()).view(at::IntArrayRef(shape.begin(), shape.end()));
}

void DeviceWeights::zero_gradients() { gradients_.clear(); }

void DeviceWeights::upload() {
  if (!shared_) parameters_.copy_(host_parameters());
}

void DeviceWeights::upload(const std::string& name) {
  if (!shared_) parameter(name).copy_(view(host_parameters(), name));
}

void DeviceWeights::download() {
  if (shared_) return;
  const Blocked blocked;
  trained(host_parameters()).copy_(trained(parameters_));
}

}  // namespace troupe
