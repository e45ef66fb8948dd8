#pragma once
// What limits a run: the verdict on a snapshot. It compares the shares of time that the parts of the run were busy in
// the last 10 s: the part that is always busy limits the run. Nothing that was longer ago than a minute counts. Pure
// functions; any thread.

#include <string>

#include "runtime/stats/snapshot.h"

namespace troupe {

// Of a snapshot that was read from JSON, the verdict that the JSON has.
Bottleneck find_bottleneck(const StatsSnapshot& snapshot);

// In one line: "sampling: the trainer waits 63 % of the time; most batches start full: more inference actors, or a
// larger batch_size".
std::string text_of(const Bottleneck& bottleneck);

// The number of failures of all environments.
uint64_t env_failures_of(const StatsSnapshot& snapshot);

}  // namespace troupe
