#pragma once
// The verdict on a run whose ranks wait for each other. Pure function; any thread.

#include "runtime/stats/snapshot.h"

namespace troupe {

// Empty unless updates take most of the time of the trainer, and the exchange between ranks the largest part of theirs.
// The time of an update on one rank follows from what rank 0 computes: each rank has as many shards. Where the ranks of
// its machine share processors, it is less than that.
Bottleneck exchange_verdict(const StatsSnapshot& s);

}  // namespace troupe
