#pragma once
// The supervisor's children: starting them, assigning workers to inference actors, and saving them in deterministic
// runs.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/supervisor.h"

namespace troupe {

// Ordered by id, because the order of actor addresses differs between processes.
std::map<uint64_t, MemberActor> members_by_id(const SupervisorState& st);
void spawn_inference(SupervisorSelf self, Role role, InferenceIndex inference_index, const RestartLimit& restarts = {});
// Assigns a new worker to an inference actor of the role and returns it; null if there is none.
InferenceService place_worker(SupervisorSelf self, Role role, uint64_t worker);
void tell(SupervisorSelf self, Role role, const std::vector<Placement::Move>& moves);
void spawn_worker(SupervisorSelf self, const RestartLimit& restarts = {});
// Tells stats how many workers there are. Call it after each change of SupervisorState::members.
void report_members(SupervisorSelf self);
// Deterministic runs: the children and the restarts of each, as bytes. spawn_children() restores them.
std::string save_children(SupervisorSelf self);
// Starts the inference actors and workers that the config asks for.
void spawn_children(SupervisorSelf self);
// Starts and monitors every actor of the table in actors/run_actors.h.
void spawn_run_actors(SupervisorSelf self);

}  // namespace troupe
