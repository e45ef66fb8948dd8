#pragma once
// ElementRange: some elements of the block of trained parameters, or of their gradients. A plain value.

#include <algorithm>
#include <cstddef>

namespace troupe {

// Elements [begin, end), padding included.
struct ElementRange {
  size_t begin = 0, end = 0;

  size_t size() const { return end - begin; }
  // The elements of both; empty where there are none.
  ElementRange common(const ElementRange& other) const {
    const size_t first = std::max(begin, other.begin);
    return {first, std::max(first, std::min(end, other.end))};
  }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

}  // namespace troupe
