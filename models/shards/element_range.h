#pragma once
// ElementRange: some elements of the block of trained parameters, or of their gradients. A plain value.

#include <cstddef>

namespace troupe {

// Elements [begin, end), padding included.
struct ElementRange {
  size_t begin = 0, end = 0;

  size_t size() const { return end - begin; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

}  // namespace troupe
