#pragma once
// How much faster a run would be with more of what limits it. Pure functions; any thread.

#include "runtime/stats/snapshot.h"

namespace troupe {

// By which part of its speed the run would gain, 1 = twice as fast, with twice as much of the verdict's resource, until
// the next part is busy all the time; kUnknown where that is not known. `troupe bench verdicts` compares it with what
// the advice gives.
double predicted_gain(const StatsSnapshot& snapshot, const Bottleneck& verdict);

// Whether `troupe bench verdicts` has shown for this resource that the prediction is right, and fails if it is not.
bool gain_is_shown(Resource resource);

// The same for those resources; else kUnknown.
double shown_gain(const StatsSnapshot& snapshot, const Bottleneck& verdict);

}  // namespace troupe
