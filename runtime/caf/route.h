#pragma once
// Routes messages to a process without a direct connection.

#include <caf/actor_system.hpp>
#include <caf/node_id.hpp>

namespace troupe {

// From now on messages to actors of process `far` go through process `near`, as long as there is a connection to
// `near`. Nothing changes when `far` is this process or connected itself. CAF 0.17.6 learns such a route when it first
// hears of an actor of `far`, and forgets it when a message is sent there while `near` is not connected; once `near`
// is, it would drop every further one. Any thread.
void route_through(caf::actor_system& system, const caf::node_id& near, const caf::node_id& far);

}  // namespace troupe
