#include "models/learning/shard_sum.h"

#include <algorithm>
#include <bit>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {

// The shards before this one wait in the places that the bits of their number name, as in a binary counter.
ShardSum shard_sum(size_t shard, size_t shards) {
  TROUPE_CHECK(shard < shards, shard, shards);
  ShardSum result;
  const bool last = shard + 1 == shards;
  for (size_t place = 0; shard >> place != 0; ++place) {
    const bool waits = (shard >> place & 1) != 0;
    if (!waits && !last) break;
    if (waits) result.add.push_back(place);
  }
  if (!last) result.keep = result.add.size();
  return result;
}

size_t shard_sum_places(size_t shards) { return static_cast<size_t>(std::bit_width(shards - 1)); }

std::vector<size_t> ShardLeaves::begin(std::span<const size_t> micro_batches) {
  TROUPE_CHECK(micro_batches.size() == shards_, micro_batches.size(), shards_);
  micro_batches_ = *std::ranges::max_element(micro_batches);
  leaf_ = 0;
  std::vector<size_t> leaves;
  for (size_t leaf = 0; leaf < end(); ++leaf)
    if (leaf / shards_ < micro_batches[leaf % shards_]) leaves.push_back(leaf);
  return leaves;
}

uint64_t shard_key(uint64_t key, size_t shard) { return shard == 0 ? key : derive_key(key, "shard", shard); }

}  // namespace troupe
