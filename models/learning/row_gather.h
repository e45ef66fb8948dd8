#pragma once
// RowGather: some rows of a batch's inputs, contiguous on the device. Its buffers are reused. Used by the learner's
// thread. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

// Row numbers on a device, valid as long as `rows`: on the CPU they are the same memory.
at::Tensor row_index(std::span<const int64_t> rows, at::Device device);

class RowGather {
 public:
  explicit RowGather(at::Device device) : device_(device) {}

  // Each [rows.size(), ...] of inputs that are each [R, ...]; valid until the next call.
  const std::vector<at::Tensor>& gather(const std::vector<at::Tensor>& inputs, std::span<const int64_t> rows);
  const std::vector<at::Tensor>& gather(const std::vector<at::Tensor>& inputs, const at::Tensor& index);

 private:
  at::Device device_;
  std::vector<at::Tensor> gathered_;
};

}  // namespace troupe
