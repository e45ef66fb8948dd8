#pragma once
// The progress of a run, as used by the trainer's schedules and the reports of stats. Plain functions; any thread.

#include <cstdint>

#include "actors/config/run_config.h"
#include "actors/replay_buffer.h"

namespace troupe {

// Progress towards `stop.seconds`, in [0, 1], after `seconds` of the current start; 0 without that limit. `start` holds
// the progress of earlier starts. The limit applies to each start separately: a resumed start continues from the
// progress of the interrupted one and reaches 1 at its own limit. If the earlier start reached its limit, the
// progress is that of one run as long as both starts together: it falls, as after an increase of stop.env_steps.
double time_progress(const StopConfig& stop, double seconds, const ReplayStart& start);

// Progress of the run, in [0, 1]: the largest over all its limits. `time` is the result of time_progress().
double run_progress(const StopConfig& stop, uint64_t env_steps, uint64_t updates, double time);

// Progress of the run when the process starts: what `start` begins with.
double progress_at_start(const StopConfig& stop, const ReplayStart& start);
// Seconds until the progress is 1, at the pace of `seconds` of training in which it grew from `before`. Unknown (NaN)
// if it has not grown.
double seconds_left(double progress, double before, double seconds);

// Whether something that is done every so many updates, 0 = never, is done after these.
bool due(uint64_t updates, int64_t every);
// Whether the policy after so many updates is saved: with checkpoint.keep_best every evaluated one is, because it may
// turn out to be one of the best.
bool checkpoint_due(const RunConfig& config, uint64_t updates);

}  // namespace troupe
