#pragma once
// What the replay buffer says of its counts: in reports, in checkpoints and at the end of the run. Called by that actor
// alone.

#include <optional>

#include "actors/replay_buffer.h"

namespace troupe {

using ReplaySelf = SelfPointer<ReplayActor, ReplayState>;

// Ends the run if the ledger does not balance or, with few stored samples, does not match them.
void recount(const ReplayShards& store);
void report(ReplaySelf self, std::optional<UpdateMessage> update = std::nullopt);
// Adds the current counts to a checkpoint and passes it on.
void send_checkpoint(ReplaySelf self, CheckpointMessage message);
// Call it when no worker is left, so that the counts are final. They go into the last checkpoint and the last report.
void close_counts(ReplaySelf self);
// Call it when training has ended or the run stops. Waits at most kFarewell for the workers to end.
void await_workers(ReplaySelf self);
// At the end of that time, or of a part of it.
void on_due(ReplaySelf self);

}  // namespace troupe
