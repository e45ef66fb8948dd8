#pragma once
// KeptMoments: what a rank with a slice of the moments keeps so that an update can be taken back when another rank is
// lost: its own moments from before the update, and copies of those of the next rank, from before it and after it. A
// plain value.

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "models/shards/adam_moments.h"

namespace troupe {

class KeptMoments {
 public:
  // The moments were divided anew. `next`: those of the next rank; nothing for the last one.
  void divide(std::optional<AdamMoments> next);
  // An update begins: the one before, if there was one since divide(), was complete on all ranks.
  void begin(AdamMoments own);
  // A piece of the next rank's moments after the update. Throws InvariantError when it does not belong there, or was
  // there already.
  void add(const AdamMoments& piece);
  // Whether all of them have come.
  bool has_copy() const { return !next_ || copied_ == next_->elements.size(); }

  // This rank's and the next one's from before the update that has begun last.
  std::vector<AdamMoments> before() const;
  // Those after it, of which `own` are this rank's.
  std::vector<AdamMoments> after(AdamMoments own) const;

 private:
  std::optional<AdamMoments> next_;   // before the update
  std::optional<AdamMoments> after_;  // those that have come
  size_t copied_ = 0;                 // elements of it
  std::optional<AdamMoments> own_;    // before the update
};

// Calls `say` with each piece of at most `each` elements, in order.
void in_pieces(const AdamMoments& moments, size_t each, const std::function<void(AdamMoments piece)>& say);

}  // namespace troupe
