#pragma once
// The order in which the gradients of the shards of a step are added up. It depends on their number alone, so that the
// sum has the same bits wherever they are computed. Plain values and functions; any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace troupe {

// What happens when the gradients of a shard are complete. Partial sums wait in places, of which there are
// shard_sum_places(): the sum of 2^p shards in place p.
struct ShardSum {
  std::vector<size_t> add;     // the places whose sums are added to the gradients, in this order
  std::optional<size_t> keep;  // the place where the result waits; none: it is the sum of all shards
};

// Of shard number `shard` of `shards`, after those before it: a binary tree over the numbers of the shards.
ShardSum shard_sum(size_t shard, size_t shards);
size_t shard_sum_places(size_t shards);

// A step under way. Its leaves are the micro-batches of the shards: first the first one of each shard, then the second
// ones. A shard may have fewer than others. The gradients of leaf after leaf are computed in the same memory; those of
// the shards with the same micro-batch make a tree, and the trees are added up. With a single shard all are added up in
// place.
class ShardLeaves {
 public:
  explicit ShardLeaves(size_t shards = 1) : shards_(shards) {}

  // The places where partial sums wait.
  size_t places() const { return shards_ == 1 ? 0 : shard_sum_places(shards_) + 1; }
  // A step begins whose shards have so many micro-batches. The gradients must be 0. Returns the leaves that are there,
  // in order.
  std::vector<size_t> begin(std::span<const size_t> micro_batches);
  // The leaf under way.
  size_t shard() const { return leaf_ % shards_; }
  size_t micro_batch() const { return leaf_ / shards_; }
  // Goes on to a later leaf, or to the end, after which the gradients are the sum of all. add(place) adds the sum that
  // waits there to the gradients; keep(place) moves the gradients there, and makes them 0.
  template <class Add, class Keep>
  void go_to(size_t leaf, Add add, Keep keep) {
    for (; leaf_ < leaf; ++leaf_) complete(add, keep);
  }
  size_t end() const { return shards_ * micro_batches_; }

 private:
  template <class Add, class Keep>
  void complete(Add add, Keep keep) {
    if (shards_ == 1) return;
    const ShardSum sum = shard_sum(shard(), shards_);
    for (const size_t place : sum.add) add(place);
    if (sum.keep) return keep(*sum.keep);
    const size_t total = places() - 1;
    if (micro_batch() > 0) add(total);
    if (micro_batch() + 1 < micro_batches_) keep(total);
  }

  size_t shards_;
  size_t micro_batches_ = 0;  // of the shard that has most
  size_t leaf_ = 0;
};

// Blocks of gradients that wait in them at most.
inline double gradient_sums(int64_t shards) {
  return static_cast<double>(ShardLeaves(static_cast<size_t>(shards)).places());
}

// The stream of random numbers of a shard: that of the whole for shard 0.
uint64_t shard_key(uint64_t key, size_t shard);

}  // namespace troupe
