#pragma once
// The merges of byte pair encoding (Sennrich et al., arXiv 1508.07909). Constant once all merges are added; then any
// thread.

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace troupe {

class BytePairMerges {
 public:
  // Adds the next merge: neighbours `left` and `right` become `merged`. Merges added earlier come first. A pair that is
  // added again moves to its later place.
  void add(int32_t left, int32_t right, int32_t merged);

  // Merges neighbours until no merge applies: always the pair of the earliest merge, and of equal pairs the first.
  // Takes n log n time for n ids.
  void apply(std::vector<int32_t>& ids) const;

 private:
  struct Merge {
    uint32_t rank;
    int32_t merged;
  };
  // The merge of two neighbours, or nullptr.
  const Merge* find(int32_t left, int32_t right) const;

  std::unordered_map<uint64_t, Merge> merges_;
  uint32_t next_rank_ = 0;
};

}  // namespace troupe
