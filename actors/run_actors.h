#pragma once
// The table of the actors that exist once in a run and whose failure ends it. It defines how each is started, monitored
// and stopped; the supervisor and the simulator use it. To add one: a member of SupervisorState and a line of the
// table.

#include <cstdint>
#include <span>
#include <string_view>

#include "actors/supervisor.h"

namespace troupe {

struct RunActor {
  std::string_view name;
  void (*spawn)(SupervisorSelf self);  // stores the actor in the state; the actors of earlier lines exist already
  Stoppable (*handle)(const SupervisorState& state);
  StopStage stage = StopStage::first;
  bool stops_by_exit = false;       // Stop ends only its training
  bool may_be_left_behind = false;  // may be blocked in an environment step when the run ends

  // Some runs have no such actor.
  bool exists(const SupervisorState& state) const { return static_cast<bool>(handle(state)); }
};

// In start order; they are stopped in reverse order.
std::span<const RunActor> run_actors();

}  // namespace troupe
