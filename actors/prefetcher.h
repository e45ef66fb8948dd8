#pragma once
// Prefetcher: keeps the next super-batch staged (Learner::stage), on the trainer's device, while the trainer trains on
// the current one. In deterministic runs (RunContext::deterministic) it stages only the one that the trainer waits for.
// Has its own thread if RunContext::threads is set.

#include <memory>

#include "actors/messages.h"
#include "actors/run_context.h"

namespace troupe {

struct PrefetcherState {
  static inline const char* name = "prefetcher";
  std::shared_ptr<const Stager> stager;
  ReplayActor replay;
  caf::strong_actor_ptr trainer;  // waits for a batch; null if it does not
  // Of the super-batch that is ready for it: of each shard; none if it is not ready.
  std::vector<std::shared_ptr<StagedBatch>> staged;
  std::vector<std::shared_ptr<const SuperBatch>> drawn;  // as in StagedMessage
  uint64_t env_steps = 0;                                // of the staged batch
  double stage_seconds = 0;                              // that its preparation took
  bool asked = false;                                    // a batch was requested from replay
  bool threads_set = false;
  bool deterministic = false;
};

PrefetcherActor::behavior_type prefetcher(SelfPointer<PrefetcherActor, PrefetcherState> self, RunContextPtr context,
                                          std::shared_ptr<const Stager> stager, ReplayActor replay);

}  // namespace troupe
