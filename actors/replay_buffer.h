#pragma once
// ReplayBuffer: the actor around ReplayStore. Event-based, never blocks. It counts what workers push, hands
// super-batches to the prefetcher, gives credits, and asserts the ledger. It tells stats of every change at once, in
// one message, so that steps, ledger, episodes, workers and updates in a report are those of one moment.

#include <optional>
#include <set>

#include <caf/actor_clock.hpp>

#include "actors/messages.h"
#include "actors/parts.h"
#include "actors/peer_checks.h"
#include "actors/replay_store.h"
#include "actors/run_context.h"
#include "actors/sampling_watch.h"

namespace troupe {

struct ReplayState {
  static inline const char* name = "replay";
  RunContextPtr context;
  std::optional<ReplayStore> store;
  StatsActor stats;
  std::map<uint64_t, CreditHolder> workers;  // by worker id
  std::set<uint64_t> seen;                   // every worker id there was
  NumberHolders worker_of;                   // who may speak for a worker
  NumberHolders receiver_of;
  std::set<InferenceIndex> gone;     // receivers that no longer count, whatever they still say
  std::set<uint64_t> gone_workers;   // the same of workers
  caf::strong_actor_ptr prefetcher;  // asked for a batch and waits
  PartAssembler parts;
  std::vector<LagCounts> lags;  // of the super-batches since the last report
  SamplingWatch sampling{{}};
  bool sampling_failed = false;  // and the supervisor was told
  bool training_ended = false;   // what workers still leave behind is nobody's loss
  bool stopping = false;         // ends when the counts are closed
  uint64_t workers_at_end = 0;   // connected when training ended
  // The last checkpoint waits until the workers, who were told to stop, have reported what they leave.
  std::optional<CheckpointMessage> last_checkpoint;
  bool checkpoint_copied = false;  // written as it was when training ended, because a worker takes long
  std::optional<caf::actor_clock::time_point> give_up_at;  // then silent workers are taken at their last report
};

// `start` is where a resumed run stands: the version training goes on from, environment steps, ledger and totals so
// far.
struct ReplayStart {
  PolicyVersion version;
  uint64_t env_steps = 0;
  Ledger ledger;
  uint64_t uncounted = 0;
  StatsTotals totals;
  double time_progress = 0;  // 0..1 of stop.seconds, where the last start ended, see actors/run_progress.h
};

ReplayActor::behavior_type replay_buffer(ReplayActor::stateful_pointer<ReplayState> self, RunContextPtr context,
                                         const ReplayStart& start, StatsActor stats,
                                         caf::typed_actor<caf::reacts_to<SamplingFailed>> supervisor);

}  // namespace troupe
