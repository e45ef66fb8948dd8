#pragma once
// Copies to a device that the caller does not wait for. Any thread. Includes LibTorch: for sources that link it only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace troupe {

// A copy of a tensor in host memory, which may go or change as soon as this returns. To a GPU it goes by way of pinned
// memory, so the host does not wait for what the device still computes.
at::Tensor upload(const at::Tensor& host, at::Device device);
at::Tensor upload(std::span<const float> host, at::Device device);     // [n] float32
at::Tensor upload(std::span<const double> host, at::Device device);    // [n] float64
at::Tensor upload(std::span<const int64_t> host, at::Device device);   // [n] int64
at::Tensor upload(std::span<const uint8_t> flags, at::Device device);  // [n] bool: other than 0

}  // namespace troupe
