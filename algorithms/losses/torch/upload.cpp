#include "algorithms/losses/torch/upload.h"

#include <ATen/ATen.h>

namespace troupe {

namespace {

template <class T>
at::Tensor upload_numbers(std::span<const T> host, at::ScalarType type, at::Device device) {
  auto* data = const_cast<T*>(host.data());  // from_blob does not accept const data; it is only read
  return upload(at::from_blob(data, {static_cast<int64_t>(host.size())}, at::TensorOptions().dtype(type)), device);
}

}  // namespace

at::Tensor upload(const at::Tensor& host, at::Device device) {
  return device.is_cpu() ? host.clone() : host.pin_memory().to(device, host.scalar_type(), /*non_blocking=*/true);
}

at::Tensor upload(std::span<const float> host, at::Device device) { return upload_numbers(host, at::kFloat, device); }
at::Tensor upload(std::span<const double> host, at::Device device) { return upload_numbers(host, at::kDouble, device); }
at::Tensor upload(std::span<const int64_t> host, at::Device device) { return upload_numbers(host, at::kLong, device); }
at::Tensor upload(std::span<const uint8_t> flags, at::Device device) {
  return upload_numbers(flags, at::kByte, device).to(at::kBool);
}

}  // namespace troupe
