#pragma once
// What limits a run: the verdict on a snapshot. It compares the shares of time that the parts of the run were busy in
// the last 10 s: the part that is always busy limits the run. Nothing that was longer ago than a minute counts. Pure
// functions; any thread.

#include <string>

#include "runtime/stats/snapshot.h"

namespace troupe {

// StatsSnapshot::told_bottleneck, if the snapshot has it.
Bottleneck find_bottleneck(const StatsSnapshot& snapshot);

// Whether the run samples and trains, so that the verdict is about shares of time, which move about their limits. All
// other verdicts say what the run waits for now.
bool is_steady(const StatsSnapshot& snapshot);

// In one line: "sampling: the trainer waits 63 % of the time; most batches start full: more inference actors, or a
// larger batch_size".
std::string text_of(const Bottleneck& bottleneck);

// The number of failures of all environments.
uint64_t env_failures_of(const StatsSnapshot& snapshot);

}  // namespace troupe
