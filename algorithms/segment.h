#pragma once
// What gae() and vtrace() share: how the flags of a [T, N] segment are read and checked. Internal to algorithms/.

#include "algorithms/tile.h"

namespace troupe {

// What the flags of one tile of one row say, as masks. At most one of link and bootstrap is set.
struct SegmentFlags {
  uint32_t live[kTile];       // the step counts
  uint32_t link[kTile];       // the step after it belongs to the same episode
  uint32_t bootstrap[kTile];  // its segment ends here, and V(s') counts
};

// Reads `count` flags from index `at` of row t; HasVoid: in.valid is there. Input: GaeInput or VtraceInput.
template <bool HasVoid, class Input, class Count>
inline void read_flags(const Input& in, int64_t at, Count count, bool last, SegmentFlags& out) {
  const uint8_t* terminated = in.terminated.data() + at;
  const uint8_t* truncated = in.truncated.data() + at;
  const uint8_t* valid = in.valid.data() + (HasVoid ? at : 0);
  const uint8_t* next_valid = HasVoid && !last ? valid + in.columns : valid;
  const uint32_t cut_is_end = mask_of(!in.bootstrap_on_truncation);
  const uint32_t not_last = mask_of(!last);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t end = mask_of(terminated[i] != 0);
    const uint32_t cut = mask_of(truncated[i] != 0);
    const uint32_t live = HasVoid ? mask_of(valid[i] != 0) : ~0u;
    const uint32_t next_live = HasVoid ? mask_of(next_valid[i] != 0) : ~0u;
    const uint32_t link = live & next_live & not_last & ~end & ~cut;
    out.live[i] = live;
    out.link[i] = link;
    out.bootstrap[i] = live & ~link & ~end & ~(cut & cut_is_end);
  }
}

// Throws InvariantError when an array is not [T, N] or a factor is outside [0, 1].
template <class Input>
void check_segment(const Input& in, std::size_t first_output, std::size_t second_output) {
  TROUPE_CHECK(in.steps >= 0 && in.columns >= 0, "steps", in.steps, "columns", in.columns);
  const auto n = static_cast<std::size_t>(in.steps * in.columns);
  TROUPE_CHECK(in.rewards.size() == n && in.values.size() == n && in.next_values.size() == n, "rewards",
               in.rewards.size(), "values", in.values.size(), "next_values", in.next_values.size(),
               "want steps * columns", n);
  TROUPE_CHECK(in.terminated.size() == n && in.truncated.size() == n && fits_or_empty(in.valid, n), "terminated",
               in.terminated.size(), "truncated", in.truncated.size(), "valid", in.valid.size(), "want steps * columns",
               n);
  TROUPE_CHECK(first_output == n && second_output == n, "outputs", first_output, second_output, "want steps * columns",
               n);
  TROUPE_CHECK(in.gamma >= 0 && in.gamma <= 1 && in.lambda >= 0 && in.lambda <= 1, "gamma", in.gamma, "lambda",
               in.lambda, "want both in [0, 1]");
}

}  // namespace troupe
