#pragma once
// ReplayBuffer: the actor around ReplayStore. Event-based, never blocks. It counts what workers push, sends
// super-batches to the prefetcher, grants credits, and checks the ledger. It reports every change to stats in one
// message, so that the steps, ledger, episodes, workers and updates of a report are consistent.

#include <optional>
#include <set>
#include <vector>

#include <caf/actor_clock.hpp>

#include "actors/credit_watch.h"
#include "actors/messages.h"
#include "actors/parts.h"
#include "actors/peer_checks.h"
#include "actors/replay_shards.h"
#include "actors/run_context.h"
#include "actors/sampling_watch.h"
#include "actors/spec_fields.h"
#include "runtime/base/limited_log.h"

namespace troupe {

struct ReplayState {
  static inline const char* name = "replay";
  RunContextPtr context;
  std::optional<ReplayShards> store;
  StatsActor stats;
  std::map<uint64_t, CreditHolder> workers;  // by worker id
  std::set<uint64_t> seen;                   // every worker id so far
  NumberHolders worker_of;                   // which actor may send messages for a worker
  NumberHolders receiver_of;
  std::set<InferenceIndex> gone;     // lost receivers, whose later messages are ignored
  std::set<uint64_t> gone_workers;   // lost workers, likewise
  caf::strong_actor_ptr prefetcher;  // waits for a batch
  // In a deterministic run of several shards: draws and grants only when no actor has a message left. So no worker
  // samples during an update, whose number of messages depends on the ranks that compute it.
  bool acts_at_rest = false;
  bool rest_awaited = false;
  PartAssembler parts;
  std::vector<LagCounts> lags;  // of the updates since the last report
  SamplingWatch sampling{{}};
  CreditWatch credits;
  SpecFields spec;               // of the run
  LimitedLog misfits{name};      // messages of other processes that do not fit the run
  bool sampling_failed = false;  // the supervisor was told
  bool training_ended = false;   // what workers still leave unfinished is not counted as lost
  bool stopping = false;         // ends when the counts are closed
  uint64_t workers_at_end = 0;   // connected when training ended
  // Held back until the workers, which were told to stop, have reported their unfinished samples.
  std::optional<CheckpointMessage> last_checkpoint;
  bool checkpoint_copied =
      false;  // already written with the counts at the end of training, because a worker is slow to stop
  std::optional<caf::actor_clock::time_point> give_up_at;  // when to use the last report of silent workers
};

// The state of a run at its start; after a resume: the policy version from which training continues, and the
// environment steps, ledger and totals so far.
struct ReplayStart {
  PolicyVersion version;
  uint64_t env_steps = 0;
  Ledger ledger;
  uint64_t uncounted = 0;
  StatsTotals totals;
  WarmupState warmup;
  double time_progress = 0;             // 0..1 of stop.seconds at the end of the last start, see actors/run_progress.h
  std::vector<WeightsPtr> evaluations;  // policies of totals.open_evaluations, which are evaluated first
};

ReplayActor::behavior_type replay_buffer(SelfPointer<ReplayActor, ReplayState> self, RunContextPtr context,
                                         const ReplayStart& start, StatsActor stats,
                                         caf::typed_actor<caf::reacts_to<SamplingFailed>> supervisor);

}  // namespace troupe
