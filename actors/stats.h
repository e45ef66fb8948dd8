#pragma once
// Stats: every actor reports to it. It sends the recorder the points of the run's curves, as the samples for them
// arrive, and at every interval what people and programs that watch are shown. Event-based; has an answer at any time,
// also with no data.

#include <memory>
#include <vector>

#include "actors/messages.h"
#include "actors/peer_checks.h"
#include "actors/replay_buffer.h"
#include "actors/run_context.h"
#include "actors/stats_core.h"
#include "runtime/base/limited_log.h"

namespace troupe {

struct StatsState {
  static inline const char* name = "stats";
  std::unique_ptr<StatsCore> core;
  NumberHolders worker_of, receiver_of;  // watched
  LimitedLog misfits{name};              // reports that do not fit the run
  std::vector<Evaluation> early;         // of updates that replay has not told of
};

// `start` is where a resumed run stands. The supervisor is told of what ends the run.
StatsActor::behavior_type stats_actor(SelfPointer<StatsActor, StatsState> self, RunContextPtr context,
                                      RecorderActor recorder, const ReplayStart& start,
                                      caf::typed_actor<caf::reacts_to<Collapsed>> supervisor);

}  // namespace troupe
