#pragma once
// The random subset of tokens that clip_cov draws. Internal to algorithms/ and python/.

#include <algorithm>
#include <cstdint>

#include "runtime/base/rng.h"

namespace troupe {

// Picks `wanted` of `candidates` items that arrive one by one. Every subset has the same probability (Knuth, "The Art
// of Computer Programming", vol. 2, algorithm S). The same key gives the same subset.
class SubsetDraw {
 public:
  SubsetDraw(uint64_t key, int64_t wanted, int64_t candidates)
      : random_(derive_key(key, "clip_cov")), wanted_(std::min(wanted, candidates)), candidates_(candidates) {}
  // Whether the next item is picked. Call it at most `candidates` times.
  bool next() {
    const bool taken = random_.below(static_cast<uint64_t>(candidates_--)) < static_cast<uint64_t>(wanted_);
    wanted_ -= taken;
    return taken;
  }

 private:
  Rng random_;
  int64_t wanted_, candidates_;
};

}  // namespace troupe
