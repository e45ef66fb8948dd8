#pragma once
// RankTrainer: the trainer of a rank other than 0. It computes some shards of each update with the same weights as the
// other ranks, and publishes nothing. Detached. Never waits: an update goes on when the exchange has sent the result of
// a round.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "actors/messages.h"
#include "actors/parts.h"
#include "actors/rank_gradients.h"
#include "actors/run_context.h"
#include "models/shards/kept_moments.h"

namespace troupe {

struct RankTrainerState {
  static inline const char* name = "rank trainer";

  RunContextPtr context;
  std::shared_ptr<Learner> learner;
  std::shared_ptr<const Stager> stager;
  RankLead lead;
  ExchangeService exchange;
  PartAssembler parts;  // of rank 0
  uint64_t streams = 0;
  bool threads_set = false;
  // The update under way, or the last one.
  Attempt attempt;
  uint64_t samples = 0;
  std::vector<std::unique_ptr<StagedBatch>> batches;  // empty: none is under way
  bool computed = false;                              // by this rank
  KeptMoments kept;                                   // with copies of the moments
  std::optional<RankGradients> gradients;             // nothing: they go to the exchange
};

// `gradients`: over which they travel; null where they go to the exchange.
RankActor::behavior_type rank_trainer(SelfPointer<RankActor, RankTrainerState> self, RunContextPtr context,
                                      std::shared_ptr<Learner> learner, std::shared_ptr<GroupBackend> gradients);

}  // namespace troupe
