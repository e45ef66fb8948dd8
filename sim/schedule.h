#pragma once
// Decides what happens next in a simulation: which actor runs, which message arrives, when time passes.

#include <functional>

#include "sim/simulated_run.h"

namespace troupe::sim {

// Runs one event; false when only timers are left.
bool step(SimulatedRun& run);
// All actors are idle: advances the clock to the next timer.
void idle(SimulatedRun& run);
// Runs events until only timers are left.
void drain(SimulatedRun& run);
// Runs the actors for which `wanted` is true until all of them are idle.
void run_only(SimulatedRun& run, const std::function<bool(const KnownActor&)>& wanted);

}  // namespace troupe::sim
