#pragma once
// GradientPieces: how a block of gradients is cut for the ranks that exchange it, and which pieces are complete in the
// micro-batch under way. A piece can be exchanged while the rest is computed. The cuts depend on the size of the block
// alone. One thread.

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "models/shards/element_range.h"
#include "runtime/base/errors.h"

namespace troupe {

class GradientPieces {
 public:
  // Of so many elements each, but the last one.
  GradientPieces(size_t elements, size_t each) : elements_(elements), each_(each) {
    TROUPE_CHECK(elements > 0 && each > 0, elements, each);
    begin();
  }

  size_t each() const { return each_; }
  size_t count() const { return (elements_ + each_ - 1) / each_; }
  ElementRange range(size_t piece) const { return {piece * each_, std::min((piece + 1) * each_, elements_)}; }

  // Of the next micro-batch, nothing is complete yet.
  void begin() {
    missing_.clear();
    for (size_t piece = 0; piece < count(); ++piece) missing_.push_back(range(piece).size());
  }
  // These elements are complete, none of which was before. Calls `say` with the number of each piece that is now.
  template <class Say>
  void complete(ElementRange elements, Say say) {
    if (elements.size() == 0) return;
    for (size_t piece = elements.begin / each_; piece <= (elements.end - 1) / each_; ++piece) {
      const ElementRange all = range(piece);
      const size_t count = std::min(all.end, elements.end) - std::max(all.begin, elements.begin);
      TROUPE_CHECK(count <= missing_.at(piece), piece, count, missing_[piece]);
      missing_[piece] -= count;
      if (missing_[piece] == 0) say(piece);
    }
  }
  // All of them are complete: calls `say` with each piece that was not before.
  template <class Say>
  void complete_all(Say say) {
    for (size_t piece = 0; piece < count(); ++piece)
      if (std::exchange(missing_[piece], 0) > 0) say(piece);
  }

 private:
  size_t elements_, each_;
  std::vector<size_t> missing_;  // elements of each piece that are not complete
};

}  // namespace troupe
