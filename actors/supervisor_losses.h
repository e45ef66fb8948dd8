#pragma once
// What the supervisor does when a child or a member of another process ends: restart it, replace it, continue without
// it, or end the run.

#include <cstdint>
#include <string>

#include "actors/supervisor.h"

namespace troupe {

void on_down(SupervisorSelf self, const caf::down_msg& down);
void on_restart_due(SupervisorSelf self, const RestartDue& due);
void lose_remote_inference(SupervisorSelf self, InferenceIndex inference_index, const std::string& why);
// Removes the ended worker of a host that joins again for a new one. Keeps the existing monitor of the host.
void forget_former_worker(SupervisorSelf self, const caf::actor_addr& host);

}  // namespace troupe
