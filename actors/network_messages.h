#pragma once
// The messages that a listening process accepts from its peers: those of the interfaces that it exposes
// (actors/messages.h). Any other message closes the peer's connection. The lists have static lifetime.

#include "runtime/caf/frames.h"

namespace troupe {

// For a run. Its peers are workers, inference processes and status clients. Workers and inference processes have no
// connection to each other: the run relays their messages.
const AcceptedMessages& messages_to_run();
// A node.
const AcceptedMessages& messages_to_node();

}  // namespace troupe
