#pragma once
// What the alarms of a run have to know of its settings. A plain function; any thread.

#include <cstdint>

#include "actors/alarm_watch.h"
#include "actors/config/run_config.h"
#include "envs/env.h"

namespace troupe {

// `window` is the number of episodes in the mean of the returns, `action` what the environment takes; none in a token
// run.
AlarmWatch::Facts alarm_facts(const RunConfig& config, int64_t window, const ActionSpec* action);

}  // namespace troupe
