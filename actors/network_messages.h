#pragma once
// The messages that a process which listens takes from those that connect to it: what the interfaces take that it gives
// them (actors/messages.h), and nothing else. Anything else that a peer sends closes its connection. The lists live for
// ever.

#include "runtime/caf/frames.h"

namespace troupe {

// A run, whose peers are workers, inference processes and whoever asks for its status. Workers and inference processes
// have no connection to each other: the run relays what they say.
const AcceptedMessages& messages_to_run();
// A node.
const AcceptedMessages& messages_to_node();

}  // namespace troupe
