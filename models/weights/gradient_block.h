#pragma once
// GradientBlock: the gradients of all tensors of a WeightBlock, laid out as it. An optimizer that exchanges the two
// memories (Optimizer::step_exchanging) leaves the old weights here, which a snapshot may still have. Owned by a
// trainer; one thread at a time.

#include <algorithm>
#include <cstdint>
#include <span>

#include "models/weights/weight_block.h"

namespace troupe {

class GradientBlock {
 public:
  // All tensors must be trained. Takes memory at the first clear().
  explicit GradientBlock(const WeightBlock& weights)
      : bytes_(static_cast<int64_t>(weights.signature()->total_bytes())), count_(weights.trained().size()) {}

  // Makes all gradients 0, in other memory where something else has this.
  void clear() {
    if (!memory_.empty() && !memory_.is_shared()) {
      std::ranges::fill(floats(), 0.0f);
    } else {
      memory_ = {};  // first, so that there are never two
      memory_ = Array(DType::u8, {bytes_});
    }
  }
  std::span<float> floats() { return {reinterpret_cast<float*>(memory_.mutable_data()), count_}; }
  // [bytes of the weights] uint8
  Array& memory() { return memory_; }

 private:
  int64_t bytes_;
  size_t count_;
  Array memory_;
};

}  // namespace troupe
