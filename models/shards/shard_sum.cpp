#include "models/shards/shard_sum.h"

#include <algorithm>
#include <bit>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {

std::pair<ShardRange, ShardRange> halves_of(ShardRange shards) {
  TROUPE_CHECK(shards.count > 1, shards.first, shards.count);
  const size_t low = std::bit_floor(shards.count - 1);
  return {{shards.first, low}, {shards.first + low, shards.count - low}};
}

namespace {

void add_branches(ShardRange mine, ShardRange of, std::vector<ShardRange>& result) {
  if (of.end() <= mine.first || mine.end() <= of.first) return;
  if (mine.first <= of.first && of.end() <= mine.end()) return result.push_back(of);
  const auto [low, high] = halves_of(of);
  add_branches(mine, low, result);
  add_branches(mine, high, result);
}

}  // namespace

std::vector<ShardRange> branches_of(ShardRange mine, size_t shards) {
  TROUPE_CHECK(mine.count > 0 && mine.end() <= shards, mine.first, mine.count, shards);
  std::vector<ShardRange> result;
  add_branches(mine, {0, shards}, result);
  return result;
}

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

void ShardLeaves::hold(ShardRange mine) {
  branches_ = branches_of(mine, shards_);
  mine_ = mine;
}

StepLeaves ShardLeaves::begin(std::span<const size_t> micro_batches, size_t most) {
  TROUPE_CHECK(micro_batches.size() == mine_.count, micro_batches.size(), mine_.count);
  TROUPE_CHECK(*std::ranges::max_element(micro_batches) <= most, most);
  micro_batches_ = most;
  leaf_ = 0;
  StepLeaves result = {{}, std::vector<size_t>(most, 0)};
  for (size_t leaf = 0; leaf < most * mine_.count; ++leaf) {
    if (leaf / mine_.count >= micro_batches[leaf % mine_.count]) continue;
    result.leaves.push_back(leaf);
    ++result.of_micro_batches[leaf / mine_.count];
  }
  return result;
}

uint64_t shard_key(uint64_t key, size_t shard) { return shard == 0 ? key : derive_key(key, "shard", shard); }

}  // namespace troupe
