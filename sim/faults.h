#pragma once
// The faults of a simulation: killed actors and processes, connections that break or stall, clock jumps, a disk that
// refuses writes.

#include <functional>
#include <vector>

#include <caf/actor_control_block.hpp>

#include "sim/simulated_run.h"

namespace troupe {
struct TrainerState;
}

namespace troupe::sim {

// Draws whether a fault happens now, and injects it.
void inject_faults(SimulatedRun& run);
// All live actors for which `wanted` is true, including those that have not run yet.
std::vector<caf::strong_actor_ptr> alive(SimulatedRun& run, const std::function<bool(const KnownActor&)>& wanted);
// The trainer of the run; nullptr while there is none.
const TrainerState* trainer_state(SimulatedRun& run);
// Whether an actor is in another process than the trainer's.
bool is_elsewhere(SimulatedRun& run, const KnownActor& known);
void kill(SimulatedRun& run, const caf::strong_actor_ptr& actor, const std::string& what);
// Breaks the connections of a remote process; for `late` see Link::cut.
void cut(SimulatedRun& run, RemoteProcess& process, bool late);

}  // namespace troupe::sim
