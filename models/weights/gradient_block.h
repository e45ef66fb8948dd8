#pragma once
// GradientBlock: the gradients of all tensors of a WeightBlock, laid out as it. An optimizer that exchanges the two
// memories (Optimizer::step_exchanging) leaves the old weights here, which a snapshot may still have. Where ranks free
// gradients (frees_gradients()), the block is paged instead: its parts can be given back, and it is never exchanged.
// Owned by a trainer; one thread at a time.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "models/shards/element_range.h"
#include "models/weights/weight_block.h"
#include "runtime/base/errors.h"
#include "runtime/base/paged_block.h"

namespace troupe {

class GradientBlock {
 public:
  // All tensors must be trained. Takes memory at the first clear().
  explicit GradientBlock(const WeightBlock& weights, bool paged = false)
      : bytes_(static_cast<int64_t>(weights.signature()->total_bytes())), count_(weights.trained().size()) {
    if (paged) pages_.emplace(count_ * sizeof(float));
  }

  bool is_paged() const { return pages_.has_value(); }
  // Makes all gradients 0, in other memory where something else has this.
  void clear() {
    if (pages_) {
      free({0, count_});
    } else if (!memory_.empty() && !memory_.is_shared()) {
      std::ranges::fill(floats(), 0.0f);
    } else {
      memory_ = {};  // first, so that there are never two
      memory_ = Array(DType::u8, {bytes_});
    }
  }
  // Of a paged block: makes these 0 and gives their memory back.
  void free(ElementRange elements) {
    pages_.value().clear(elements.begin * sizeof(float), elements.end * sizeof(float));
  }
  std::span<float> floats() {
    return pages_ ? pages_->floats() : std::span(reinterpret_cast<float*>(memory_.mutable_data()), count_);
  }
  // [bytes of the weights] uint8, unless it is paged.
  Array& memory() {
    TROUPE_CHECK(!pages_, count_);
    return memory_;
  }

 private:
  int64_t bytes_;
  size_t count_;
  Array memory_;
  std::optional<PagedBlock> pages_;
};

}  // namespace troupe
