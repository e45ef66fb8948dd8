#pragma once
// The messages that a process which listens takes from those that connect to it.

#include "runtime/caf_frames.h"

namespace troupe {

// Anything else that a peer sends closes its connection. Lives for ever.
const AcceptedMessages& messages_from_peers();

}  // namespace troupe
