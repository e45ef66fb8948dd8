#pragma once
// Copies to a device without waiting for them. Any thread. Includes LibTorch: only for sources that link it.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace troupe {

// A copy of host memory, which may be freed or changed as soon as this returns. Copies to a GPU go through pinned
// memory, so the host does not wait for pending GPU work.
at::Tensor upload(const at::Tensor& host, at::Device device);
at::Tensor upload(std::span<const float> host, at::Device device);     // [n] float32
at::Tensor upload(std::span<const double> host, at::Device device);    // [n] float64
at::Tensor upload(std::span<const int64_t> host, at::Device device);   // [n] int64
at::Tensor upload(std::span<const uint8_t> flags, at::Device device);  // [n] bool: true where flags are not 0

}  // namespace troupe
