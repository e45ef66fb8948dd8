#pragma once
// RankGroup: the ranks of a run as the trainer, rank 0, knows them: which shards each computes in the attempt at an
// update that is under way, and which have completed it. A plain value without messages; one thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "actors/config/run_config.h"
#include "actors/messages/ranks.h"
#include "models/policy.h"
#include "models/shards/kept_moments.h"

namespace troupe {

// The shards of a rank: each has as many as the others, or one more. `ranks` is at most `shards`.
ShardRange shards_of_rank(size_t rank, size_t ranks, size_t shards);

// Whether a run's ranks divide the moments of the optimizer into slices, and whether each then keeps a copy of those of
// the next rank, so that the loss of a rank loses none.
bool divides_moments(const RunConfig& config);
bool keeps_copies(const RunConfig& config);

// The moments that a rank sends when it is asked for them.
std::vector<AdamMoments> moments_wanted(MomentsWanted wanted, const Learner& learner, const KeptMoments& kept);

class RankGroup {
 public:
  explicit RankGroup(size_t shards) : shards_(shards) {}

  // An attempt at an update by so many ranks begins.
  void begin(uint64_t update, size_t ranks);
  const Attempt& attempt() const { return attempt_; }
  size_t shards() const { return shards_; }
  size_t ranks() const { return done_.size(); }
  ShardRange shards_of(size_t rank) const { return shards_of_rank(rank, ranks(), shards_); }

  // A rank has completed the update, with these weights.
  void done(size_t rank, uint32_t weights);
  bool is_done(size_t rank) const { return done_.at(rank).has_value(); }
  bool all_done() const;
  // The first rank whose weights differ from those of rank 0.
  std::optional<size_t> different() const;

 private:
  size_t shards_;
  Attempt attempt_;
  std::vector<std::optional<uint32_t>> done_;  // by rank: its weights
};

}  // namespace troupe
