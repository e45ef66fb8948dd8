#pragma once
// What the ranks of a run tell each other within an update. Each rank computes the gradients of some of the shards; in
// a round every rank says what it has, and all go on with the same. Plain values, and RankRound, which puts them
// together: one thread.

#include <cstddef>
#include <span>
#include <vector>

#include "models/shards/shard_numbers.h"
#include "models/shards/shard_sum.h"
#include "runtime/base/array.h"

namespace troupe {

// The sum of the gradients of some shards that are a branch of the tree of shard_sum().
struct GradientBranch {
  ShardRange shards;
  Array values;  // [n] float32
};

// What a rank says in a round.
struct RankPart {
  ShardRange shards;                     // that it computes
  std::vector<ShardNumbers> numbers;     // of each of them, in order; empty where the round is of gradients alone
  std::vector<GradientBranch> branches;  // which have these shards; none where the round is of numbers alone
  std::vector<Array> data = {};          // of each of them, in order, what is too large for numbers; or empty

  // The same for all ranks of a round: there is none where they have nothing to say.
  bool empty() const { return numbers.empty() && branches.empty() && data.empty(); }
};

// What all of them said.
struct RoundResult {
  std::vector<ShardNumbers> numbers;  // [S] by shard, or empty
  Array gradients = {};               // [n] float32: the sum of all shards, or empty
  std::vector<Array> data = {};       // [S] by shard, or empty
};

class RankRound {
 public:
  explicit RankRound(size_t shards) : shards_(shards) {}

  // Throws InvariantError when a shard was said before or does not exist.
  void add(RankPart part);
  bool complete() const { return said_ == shards_; }
  // Once it is complete. Throws InvariantError when the parts do not fit together.
  RoundResult result();

 private:
  size_t shards_;
  size_t said_ = 0;  // shards
  std::vector<RankPart> parts_;
};

}  // namespace troupe
