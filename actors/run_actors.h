#pragma once
// The table of the actors that a run has once each and cannot go on without. It says how each is started, watched and
// stopped; the supervisor and the simulator go by it. A new one is a member of SupervisorState and a line here.

#include <cstdint>
#include <span>
#include <string_view>

#include "actors/supervisor.h"

namespace troupe {

// Any actor that can be told to stop.
using Stoppable = caf::typed_actor<caf::reacts_to<Stop>>;

struct RunActor {
  std::string_view name;
  void (*spawn)(SupervisorSelf self);  // into the state; the actors of the lines above are there
  Stoppable (*handle)(const SupervisorState& state);
  StopStage stage = StopStage::first;
  bool stops_by_exit = false;       // Stop ends only its training
  bool may_be_left_behind = false;  // it may be inside a step of an environment when the run ends
};

// In the order in which they are started; they are stopped in the opposite one.
std::span<const RunActor> run_actors();

}  // namespace troupe
