#pragma once
// The random subset that clip_cov draws. Internal to algorithms/ and python/.

#include <algorithm>
#include <cstdint>

#include "runtime/base/rng.h"

namespace troupe {

// Picks `wanted` of `candidates` things that come one by one, every subset with the same probability (Knuth, algorithm
// S). The same key picks the same.
class SubsetDraw {
 public:
  SubsetDraw(uint64_t key, int64_t wanted, int64_t candidates)
      : random_(derive_key(key, "clip_cov")), wanted_(std::min(wanted, candidates)), candidates_(candidates) {}
  // Whether the next one is picked; called at most `candidates` times.
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
