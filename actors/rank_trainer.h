#pragma once
// RankTrainer: the trainer of a rank other than 0. It computes some shards of each update with the same weights as the
// other ranks, and publishes nothing. Detached. Never waits: an update goes on when the exchange has sent the result of
// a round.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages.h"
#include "actors/parts.h"
#include "actors/rank_gradients.h"
#include "actors/run_context.h"
#include "models/shards/kept_moments.h"

namespace troupe {

// Makes the backend over which gradients travel, in a process that meets the other ranks at that host.
using GradientBackendTowards = std::function<std::shared_ptr<GroupBackend>(const std::string& host)>;

struct RankTrainerState {
  static inline const char* name = "rank trainer";

  RunContextPtr context;
  std::shared_ptr<Learner> learner;
  std::shared_ptr<const Stager> stager;
  RankLead lead;
  ExchangeService exchange;
  PartAssembler parts{std::numeric_limits<size_t>::max()};  // of rank 0
  uint64_t streams = 0;
  bool threads_set = false;
  RankSamples drawn;  // of the attempt that begins next
  // The update under way, or the last one.
  Attempt attempt;
  uint64_t samples = 0;
  std::vector<std::unique_ptr<StagedBatch>> batches;  // empty: none is under way
  bool computed = false;                              // by this rank
  KeptMoments kept;                                   // with copies of the moments
  GradientBackendTowards make_gradients;              // empty: they go to the exchange
  std::optional<RankGradients> gradients;             // since the first group
};

// `gradients` is empty in a process whose gradients always go to the exchange.
RankActor::behavior_type rank_trainer(SelfPointer<RankActor, RankTrainerState> self, RunContextPtr context,
                                      std::shared_ptr<Learner> learner, GradientBackendTowards gradients);

}  // namespace troupe
