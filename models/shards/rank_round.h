#pragma once
// What the ranks of a run tell each other within an update. Each rank computes the gradients of some of the shards; in
// a round every rank says what it has, and all go on with the same. A round may consist of pieces, each of which every
// rank says by itself: gradients, which are exchanged while others are computed. Plain values, and RankRounds, which
// puts them together: one thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "models/shards/element_range.h"
#include "models/shards/shard_sum.h"
#include "models/shards/shard_values.h"
#include "runtime/base/array.h"

namespace troupe {

// The sum of the gradients of some shards that are a branch of the tree of shard_sum().
struct GradientBranch {
  ShardRange shards;
  Array values;  // [n] float32
};

// A piece of a round of an update, which has the numbers 0, 1, ... in both.
struct RoundPiece {
  uint64_t round = 0;
  uint64_t piece = 0;
  friend bool operator==(const RoundPiece&, const RoundPiece&) = default;
};

// What a rank says in a piece of a round.
struct RankPart {
  ShardRange shards;                     // that it computes
  std::vector<ShardNumbers> numbers;     // of each of them, in order; empty where the piece is of gradients alone
  std::vector<GradientBranch> branches;  // which have these shards; none where the piece is of numbers alone
  std::vector<Array> data = {};          // of each of them, in order, what is too large for numbers; or empty
  // What this rank alone says in this piece, for the others: then the piece has nothing of the shards.
  std::optional<Array> own = {};

  // The same for all ranks: there is no round where they have nothing to say.
  bool empty() const { return numbers.empty() && branches.empty() && data.empty() && !own; }
};

// What all of them said.
struct RoundResult {
  std::vector<ShardNumbers> numbers;  // [S] by shard, or empty
  Array gradients = {};               // [n] float32 of the piece: the sum of all shards, or empty
  std::vector<Array> data = {};       // [S] by shard, or empty
  std::optional<Array> own = {};      // what another rank alone has said
};

// What a rank is told that trains a slice of the parameters: of the gradients, which are those of `piece`, its own.
RoundResult of_slice(RoundResult all, ElementRange piece, ElementRange slice);

// A piece of a round.
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

// The rounds of an update. No rank begins a round before all have said all pieces of the one before.
class RankRounds {
 public:
  // `skips`: rounds of gradients alone are exchanged elsewhere (GradientGroup), so that others may follow any round.
  explicit RankRounds(size_t shards, bool skips = false) : shards_(shards), skips_(skips) {}

  // The result of the piece when all ranks have said it, or one has said it alone. Throws InvariantError when the part
  // does not fit: it was said before, or is of another round.
  std::optional<RoundResult> say(const RoundPiece& at, RankPart part);

 private:
  size_t shards_;
  bool skips_;
  uint64_t round_ = 0;
  std::map<uint64_t, RankRound> open_;  // the pieces that some ranks have said
  std::vector<bool> complete_;          // by piece
};

}  // namespace troupe
