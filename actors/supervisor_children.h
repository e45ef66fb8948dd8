#pragma once
// The children of a supervisor: starting them, whom each worker asks, and what a deterministic run saves of them.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/supervisor.h"

namespace troupe {

// By id, because the order of addresses is another one in every process.
std::map<uint64_t, MemberActor> members_by_id(const SupervisorState& st);
void spawn_inference(SupervisorSelf self, InferenceIndex inference_index, const RestartLimit& restarts = {});
// The inference actor of a new worker; none while there is none.
InferenceService place_worker(SupervisorSelf self, uint64_t worker);
void tell(SupervisorSelf self, const std::vector<Placement::Move>& moves);
void spawn_worker(SupervisorSelf self, const RestartLimit& restarts = {});
// Deterministic runs: who there is and how often each was restarted, as bytes; spawn_children() starts from them.
std::string save_children(SupervisorSelf self);
// The inference actors and workers of the run's config.
void spawn_children(SupervisorSelf self);
// The actors of the table in actors/run_actors.h, all of them watched.
void spawn_run_actors(SupervisorSelf self);

}  // namespace troupe
