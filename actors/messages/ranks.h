#pragma once
// Messages between the trainer, which is rank 0, and the other ranks of a run. They say of which attempt at which
// update they are: an update is tried again with other shards when a rank is lost, and messages of an attempt before
// are of no use.

#include <cstdint>
#include <memory>
#include <vector>

#include "models/experience/rollout.h"
#include "models/policy.h"
#include "models/shards/rank_round.h"

namespace troupe {

struct Attempt {
  uint64_t update = 0;  // its index
  uint64_t number = 0;  // counts all attempts of the run
  friend bool operator==(const Attempt&, const Attempt&) = default;
};

// From rank 0: take over this state of the learner.
struct RankState {
  std::shared_ptr<const LearnerState> learner;
};

// From rank 0: compute these shards of an update.
struct RankUpdate {
  Attempt attempt;
  double progress = 0;
  ShardRange shards;
  std::vector<std::shared_ptr<const SuperBatch>> batches;  // of these shards
};

// To rank 0: what the sender has in a round.
struct RankSaid {
  Attempt attempt;
  uint64_t round = 0;  // of the attempt
  RankPart part;
};

// From rank 0: what all ranks have in it.
struct RoundSaid {
  Attempt attempt;
  uint64_t round = 0;
  RoundResult all;
};

// To rank 0: the update is complete.
struct RankDone {
  Attempt attempt;
  uint32_t weights = 0;  // crc32c of those that it would publish
  uint64_t samples = 0;  // of its shards
};

}  // namespace troupe
