#pragma once
// What limits a run: the verdict on a snapshot. It compares the shares of time that the parts of the run were busy in
// the last 10 s: the part that is always busy limits the run. Pure functions; any thread.

#include <string>

#include "runtime/stats/snapshot.h"

namespace troupe {

struct Bottleneck {
  std::string what;    // the verdict, like "sampling": at most 34 columns; empty once training has ended
  std::string why;     // its reason, like "the trainer waits 63 % of the time"; may be empty
  std::string advice;  // what would help; may be empty
  // How much faster the run is expected to become if the advice doubles what limits it: 0.4 is 40 %. Unknown without an
  // estimate.
  double gain = kUnknown;
};

Bottleneck find_bottleneck(const StatsSnapshot& snapshot);

// In one line: "sampling: the trainer waits 63 % of the time; most batches start full: more inference actors, or a
// larger batch_size".
std::string text_of(const Bottleneck& bottleneck);

// The number of failures of all environments.
uint64_t env_failures_of(const StatsSnapshot& snapshot);

}  // namespace troupe
