#pragma once
// How workers and inference processes join a run.

#include <cstdint>

#include "actors/supervisor.h"

namespace troupe {

caf::result<Welcome> join(SupervisorSelf self, const JoinRequest& request);
// Its policy fits, so it gets weights; workers come once it serves.
caf::result<void> take_rank(SupervisorSelf self, const RankReady& ready);
caf::result<void> serve(SupervisorSelf self, const ServeRequest& request);
void on_serving(SupervisorSelf self, InferenceIndex inference_index);

}  // namespace troupe
