#pragma once
// The processes of a simulation: the trainer's process, which is started, ends or is killed, and is started again; and
// the remote worker processes.

#include "sim/simulated_run.h"

namespace troupe::sim {

// Starts the trainer's process and runs it until it ends.
void run_process(SimulatedRun& run);
// Checks how it ended; all its actors must be gone once its messages are delivered.
void end_process(SimulatedRun& run);
// Ends the worker processes as well; afterwards no actor may be left.
void finish(SimulatedRun& run);

}  // namespace troupe::sim
