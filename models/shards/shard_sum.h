#pragma once
// The order in which the gradients of the shards of a step are added up. It depends on their number alone, so that the
// sum has the same bits wherever they are computed. Plain values and functions; any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace troupe {

// Some shards that follow each other.
struct ShardRange {
  size_t first = 0;
  size_t count = 1;

  size_t end() const { return first + count; }
  friend bool operator==(const ShardRange&, const ShardRange&) = default;
};

// The sum of several shards is that of two halves: of a power of two, as large as possible, and of the others.
std::pair<ShardRange, ShardRange> halves_of(ShardRange shards);
// The branches of the tree of `shards` shards that have these and no others, as large as possible, in order.
std::vector<ShardRange> branches_of(ShardRange mine, size_t shards);

// What happens when the gradients of a shard are complete. Partial sums wait in places, of which there are
// shard_sum_places(): the sum of 2^p shards in place p.
struct ShardSum {
  std::vector<size_t> add;     // the places whose sums are added to the gradients, in this order
  std::optional<size_t> keep;  // the place where the result waits; none: it is the sum of all shards
};

// Of shard number `shard` of `shards`, after those before it: a binary tree over the numbers of the shards.
ShardSum shard_sum(size_t shard, size_t shards);
size_t shard_sum_places(size_t shards);

// The micro-batches of an optimizer step that are there: those of the shards that are computed here.
struct StepLeaves {
  std::vector<size_t> leaves;            // in order
  std::vector<size_t> of_micro_batches;  // how many leaves each micro-batch has
};

// A step under way. Its leaves are the micro-batches of the shards: first the first one of each shard, then the second
// ones. A shard may have fewer than others. The gradients of leaf after leaf are computed in the same memory; those of
// the shards with the same micro-batch make a tree, and the trees are added up. With a single shard all are added up in
// place. A process that computes some of the shards has the branches of the tree that they are.
//
// In what follows add(place) adds the sum that waits there to the gradients; keep(place) moves the gradients there, and
// makes them 0.
class ShardLeaves {
 public:
  explicit ShardLeaves(size_t shards = 1) : shards_(shards) { hold({0, shards}); }

  // From the next step on, the leaves of these shards are computed; at first of all.
  void hold(ShardRange mine);
  const ShardRange& mine() const { return mine_; }
  bool holds_all() const { return mine_.count == shards_; }
  // The places where partial sums wait.
  size_t places() const { return shards_ == 1 ? 0 : shard_sum_places(shards_) + branches_.size(); }

  // A step begins whose shards, those that are held, have so many micro-batches, and one of all shards has `most`. The
  // gradients must be 0.
  StepLeaves begin(std::span<const size_t> micro_batches, size_t most);
  // The leaf under way: the index of its shard among those that are held, and of the micro-batch.
  size_t held() const { return leaf_ % mine_.count; }
  size_t micro_batch() const { return leaf_ / mine_.count; }
  // Goes on to a later leaf of the same micro-batch, or to the first one of the next.
  template <class Add, class Keep>
  void go_to(size_t leaf, Add add, Keep keep) {
    for (; leaf_ < leaf; ++leaf_) complete(add, keep);
  }
  // Where the leaves of the micro-batch under way end. There go_to() leaves the sums of all branches() but the last one
  // in their places, and the last one in the gradients.
  size_t end_of_micro_batch() const { return (leaf_ / mine_.count + 1) * mine_.count; }
  const std::vector<ShardRange>& branches() const { return branches_; }
  // The places whose sums end_of_micro_batch() adds to the gradients when the leaf under way is the last one before it.
  std::vector<size_t> last_additions() const {
    return shard_sum(branches_.back().count - 1, branches_.back().count).add;
  }
  bool is_last_leaf() const { return leaf_ + 1 == (leaf_ / mine_.count + 1) * mine_.count; }
  size_t place_of(size_t branch) const { return shard_sum_places(shards_) + branch; }
  // The gradients are the sum of all shards for that micro-batch. After the last one they are that of the step.
  template <class Add, class Keep>
  void end_micro_batch(Add add, Keep keep) {
    if (shards_ == 1) return;
    const size_t ended = micro_batch() - 1, total = places() - 1;
    if (ended > 0) add(total);
    if (ended + 1 < micro_batches_) keep(total);
  }

 private:
  template <class Add, class Keep>
  void complete(Add add, Keep keep) {
    if (shards_ == 1) return;
    const size_t shard = mine_.first + held();
    size_t branch = 0;
    while (shard >= branches_[branch].end()) ++branch;
    const ShardSum sum = shard_sum(shard - branches_[branch].first, branches_[branch].count);
    for (const size_t place : sum.add) add(place);
    if (sum.keep)
      keep(*sum.keep);
    else if (branch + 1 < branches_.size())
      keep(place_of(branch));
  }

  size_t shards_;
  ShardRange mine_;
  std::vector<ShardRange> branches_;  // of the tree, that mine_ is
  size_t micro_batches_ = 0;          // of the shard that has most
  size_t leaf_ = 0;
};

// Blocks of gradients that wait in them at most, in a process that computes all shards.
inline double gradient_sums(int64_t shards) {
  return static_cast<double>(ShardLeaves(static_cast<size_t>(shards)).places());
}

// The stream of random numbers of a shard: that of the whole for shard 0.
uint64_t shard_key(uint64_t key, size_t shard);

}  // namespace troupe
