#pragma once
// What goes wrong in a simulation: actors and processes that are killed, connections that break or stall, a clock that
// jumps, a disk that refuses.

#include <functional>
#include <vector>

#include <caf/actor_control_block.hpp>

#include "sim/simulated_run.h"

namespace troupe::sim {

// Draws whether something goes wrong now, and does it.
void inject_faults(SimulatedRun& run);
// All actors that live and are wanted, also those that have not run yet.
std::vector<caf::strong_actor_ptr> alive(SimulatedRun& run, const std::function<bool(const KnownActor&)>& wanted);
void kill(SimulatedRun& run, const caf::strong_actor_ptr& actor, const std::string& what);
// Ends the connections of a process elsewhere; for `late` see Link::cut.
void cut(SimulatedRun& run, WorkerProcess& node, bool late);

}  // namespace troupe::sim
