#pragma once
// SampleGather: some samples of a batch's inputs, contiguous on the device. Its buffers are reused. Used by the
// learner's thread. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

// Indices on a device, valid as long as `indices`: on the CPU they are the same memory.
at::Tensor index_tensor(std::span<const int64_t> indices, at::Device device);

class SampleGather {
 public:
  explicit SampleGather(at::Device device) : device_(device) {}

  // Each [samples.size(), ...] of inputs that are each [B, ...]; valid until the next call.
  const std::vector<at::Tensor>& gather(const std::vector<at::Tensor>& inputs, std::span<const int64_t> samples);
  const std::vector<at::Tensor>& gather(const std::vector<at::Tensor>& inputs, const at::Tensor& index);

 private:
  at::Device device_;
  std::vector<at::Tensor> gathered_;
};

}  // namespace troupe
