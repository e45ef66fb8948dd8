#pragma once
// ParameterSlices: which rank trains which of the parameters, where each trains a slice of them. With several shards
// the norm of the gradients is a sum over blocks that depend on the number of parameters alone, so that it has the same
// bits for any number of ranks; slices consist of whole blocks. A plain value.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "models/shards/element_range.h"
#include "runtime/base/errors.h"

namespace troupe {

class ParameterSlices {
 public:
  // Of so many parameters, padding included.
  explicit ParameterSlices(size_t elements, size_t ranks = 1)
      : elements_(elements),
        block_(std::max<size_t>(1, (elements + kMostBlocks * kAlignment - 1) / (kMostBlocks * kAlignment)) *
               kAlignment),
        ranks_(ranks) {
    TROUPE_CHECK(elements > 0 && ranks > 0, elements, ranks);
  }

  size_t ranks() const { return ranks_; }
  size_t blocks() const { return (elements_ + block_ - 1) / block_; }
  ElementRange block(size_t i) const { return {i * block_, std::min((i + 1) * block_, elements_)}; }
  // The blocks [first, last) of a rank. There may be none: a model may have fewer blocks than there are ranks.
  size_t first_block(size_t rank) const { return rank * blocks() / ranks_; }
  ElementRange slice(size_t rank) const {
    return {first_block(rank) * block_, std::min(first_block(rank + 1) * block_, elements_)};
  }
  // The slices of all ranks in order, cut into pieces of at most `each` elements; the rank of each piece.
  struct Piece {
    size_t rank = 0;
    ElementRange elements;
  };
  std::vector<Piece> pieces(size_t each) const {
    std::vector<Piece> result;
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const ElementRange all = slice(rank);
      for (size_t begin = all.begin; begin < all.end; begin += each)
        result.push_back({rank, {begin, std::min(begin + each, all.end)}});
    }
    return result;
  }

 private:
  static constexpr size_t kMostBlocks = 64, kAlignment = 16;  // elements of a cache line

  size_t elements_, block_, ranks_;
};

}  // namespace troupe
