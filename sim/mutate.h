#pragma once
// The bugs that a scenario puts in on purpose (Mutation), as far as they change what an actor is told.

#include <caf/mailbox_element.hpp>
#include <caf/scheduled_actor.hpp>

#include "sim/simulated_run.h"

namespace troupe::sim {

// An actor is about to take this message.
void mutate(SimulatedRun& run, caf::scheduled_actor& actor, caf::mailbox_element& element);
// Mutation::request_lost: the inference actor forgets a client.
void forget_request(SimulatedRun& run, caf::scheduled_actor& actor);

}  // namespace troupe::sim
