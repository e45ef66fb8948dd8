#pragma once
// How the supervisor ends its run: which actors it stops, in which order, and which it waits for.

#include <string>

#include "actors/supervisor.h"

namespace troupe {

// Tells every child to stop: stats after the others, because they send it their last reports, and the recorder last.
void stop_all(SupervisorSelf self);
// Call when a child that was told to stop has ended, or when the supervisor no longer waits for it.
void on_left(SupervisorSelf self, const caf::actor_addr& child);
// Stops all children once the run has ended and its last checkpoint, evaluation and report are complete.
void stop_when_complete(SupervisorSelf self);
// Ends the run with an error, and stops all children. Only the first error counts.
void fail(SupervisorSelf self, const std::string& error);
// Ends the run because no worker samples any more, with a last checkpoint where that is possible. Only the first error
// counts.
void end_sampling(SupervisorSelf self, const std::string& error);
// Ends the run as at a limit, because of that alarm.
void end_collapsed(SupervisorSelf self, const std::string& alarm);
// Stops waiting for children that may be blocked: workers and the evaluator may be inside an environment step.
void on_farewell_over(SupervisorSelf self);

}  // namespace troupe
