#pragma once
// DeviceSequences: which sequence each token on a device belongs to. Immutable, so usable from any thread. Includes
// LibTorch: only for sources that link it.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace troupe {

class DeviceSequences {
 public:
  // Sequence i consists of the tokens [offsets[i], offsets[i + 1]); `offsets` begin with 0.
  DeviceSequences(std::span<const int64_t> offsets, at::Device device);

  int64_t count() const { return count_; }
  // The sum of x over each sequence: [S] float64 from x [n] float64.
  at::Tensor sum(const at::Tensor& x) const;
  // For every token the value of its sequence: [n] from x [S].
  at::Tensor spread(const at::Tensor& x) const;

 private:
  int64_t count_, tokens_;
  at::Tensor lengths_, sequences_;  // [S] and [n] int64; undefined with one sequence
};

}  // namespace troupe
