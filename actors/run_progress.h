#pragma once
// How much of a run is done. The schedules of the trainer and the reports of stats both follow it. Plain functions.

#include <cstdint>

#include "actors/config/run_config.h"
#include "actors/replay_buffer.h"

namespace troupe {

// The fraction of `stop.seconds` that is used after `seconds` of this start, in [0, 1]; 0 without that limit. `start`
// is what the starts before left. The limit is one of each start: a start continues where an interrupted one was, and
// reaches 1 at its own limit. After a start that used its time up, the run is one of both times, as with a larger
// stop.env_steps.
double time_progress(const StopConfig& stop, double seconds, const ReplayStart& start);

// The fraction of the run that is done, in [0, 1]: of the limit that is nearest. `time` is what time_progress() says.
double run_progress(const StopConfig& stop, uint64_t env_steps, uint64_t updates, double time);

}  // namespace troupe
