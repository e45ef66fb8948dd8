#pragma once
// The deliberate bugs of a scenario (Mutation) that change the messages or the state of an actor.

#include <caf/mailbox_element.hpp>
#include <caf/scheduled_actor.hpp>

#include "sim/simulated_run.h"

namespace troupe::sim {

// The content of a message of one value of this type; otherwise null.
template <class T>
T* mutable_content(caf::mailbox_element& element) {
  return element.content().match_elements<T>() ? &element.content().get_mutable_as<T>(0) : nullptr;
}

// Called when an actor is about to handle this message.
void mutate(SimulatedRun& run, caf::scheduled_actor& actor, caf::mailbox_element& element);
// Its part for ranks, the publisher and processes that have joined.
void mutate_peers(SimulatedRun& run, caf::scheduled_actor& actor, caf::mailbox_element& element);
// Mutation::request_lost: the inference actor forgets a client. Mutation::request_unended: its generator stops working
// on a request.
void forget_request(SimulatedRun& run, caf::scheduled_actor& actor);

}  // namespace troupe::sim
