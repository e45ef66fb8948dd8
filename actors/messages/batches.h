#pragma once
// Super-batches on their way from replay to the trainer. Inside one process.

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "models/experience/rollout.h"
#include "models/policy.h"

namespace troupe {

// A super-batch, in parts: one for each shard.
struct BatchMessage {
  std::vector<std::shared_ptr<const SuperBatch>> shards;
  double draw_seconds = 0;  // that it took to draw them
};

struct StagedMessage {
  std::vector<std::shared_ptr<StagedBatch>> shards;           // with several ranks: the first ones, which are rank 0's
  std::vector<std::shared_ptr<const SuperBatch>> drawn = {};  // with several ranks: of all shards
  uint64_t env_steps = 0;                                     // as in SuperBatch
  double stage_seconds = 0;                                   // that the preparation took

  uint64_t index() const { return shards.front()->index; }
  uint64_t samples() const {  // of `shards`
    return std::accumulate(shards.begin(), shards.end(), uint64_t{0},
                           [](uint64_t sum, const auto& shard) { return sum + shard->samples; });
  }
  std::vector<StagedBatch*> batches() const {
    std::vector<StagedBatch*> result;
    for (const auto& shard : shards) result.push_back(shard.get());
    return result;
  }
};

}  // namespace troupe
