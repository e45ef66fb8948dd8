#pragma once
// The processes of a simulation: the trainer's, which is started, runs to its end or is killed, and is started again,
// and the workers' elsewhere.

#include "sim/simulated_run.h"

namespace troupe::sim {

// Starts the trainer's process and lets it run until it ends.
void run_process(SimulatedRun& run);
// Checks how it ended; everything of it must be gone once its messages are.
void end_process(SimulatedRun& run);
// The worker processes end as well, and then nobody is left.
void finish(SimulatedRun& run);

}  // namespace troupe::sim
