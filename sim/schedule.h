#pragma once
// What happens next in a simulation: which actor runs, which message arrives, when time passes.

#include <functional>

#include "sim/simulated_run.h"

namespace troupe::sim {

// One event; false when nothing can happen but a timer.
bool step(SimulatedRun& run);
// Nobody has anything to do: the next timer.
void idle(SimulatedRun& run);
// Until nothing can happen but a timer.
void drain(SimulatedRun& run);
// Runs the actors that are wanted until none of them has anything to do.
void run_only(SimulatedRun& run, const std::function<bool(const KnownActor&)>& wanted);

}  // namespace troupe::sim
