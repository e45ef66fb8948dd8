#pragma once
// How a supervisor ends its run: who is told to stop, in which order, and for whom the end waits.

#include <string>

#include "actors/supervisor.h"

namespace troupe {

// Tells every child to stop; stats when the others have, or their last reports would come too late, and the recorder
// last of all.
void stop_all(SupervisorSelf self);
// A child that was told to stop has ended, or is waited for no longer.
void on_left(SupervisorSelf self, const caf::actor_addr& child);
void stop_when_complete(SupervisorSelf self);
void fail(SupervisorSelf self, const std::string& error);
// The end waits no longer for who may be silent. Two kinds run environments in this process, and may be inside a step.
void on_farewell_over(SupervisorSelf self);

}  // namespace troupe
