#include "algorithms/common/token_sequences.h"

#include <algorithm>

namespace troupe {

TokenSequences::TokenSequences(std::span<const int64_t> offsets)
    : count_(static_cast<int64_t>(offsets.size()) - 1), offsets_(offsets) {
  TROUPE_CHECK(!offsets.empty() && offsets[0] == 0, "sequence offsets", offsets.size(), "first",
               offsets.empty() ? -1 : offsets[0], "want 0 first");
  for (int64_t i = 0; i < count_; ++i)
    TROUPE_CHECK(offsets[i] <= offsets[i + 1], "sequence offsets decrease after index", i, offsets[i], offsets[i + 1]);
}

int64_t TokenSequences::longest() const {
  if (offsets_.empty()) return count_ == 0 ? 0 : length_;
  int64_t longest = 0;
  for (int64_t i = 0; i < count_; ++i) longest = std::max(longest, end(i) - begin(i));
  return longest;
}

}  // namespace troupe
