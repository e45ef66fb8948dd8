#pragma once
// PagedTensor: numbers in one tensor, on the CPU also in memory whose parts can be given back. Used by one thread at a
// time. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "models/shards/element_range.h"
#include "runtime/base/paged_block.h"

namespace troupe {

class PagedTensor {
 public:
  PagedTensor() = default;  // with undefined values
  // [elements] float32, all 0. `paged`: in memory that free() gives back; only on the CPU, and of at least one element.
  PagedTensor(int64_t elements, at::Device device, bool paged);

  at::Tensor& values() { return values_; }
  const at::Tensor& values() const { return values_; }
  bool is_paged() const { return pages_.has_value(); }
  // Makes all of them 0; where they are paged, they take no memory any more.
  void clear();
  // Of paged values: makes these 0 and gives their memory back.
  void free(ElementRange elements);

 private:
  std::optional<PagedBlock> pages_;
  at::Tensor values_;
};

}  // namespace troupe
