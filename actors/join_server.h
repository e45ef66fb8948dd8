#pragma once
// JoinServer: the one actor of a run that other processes can reach. It is published before the run begins, so that an
// address in use is found before anything was written; joins are passed on to the supervisor once there is one.
// Event-based.

#include "actors/messages.h"

namespace troupe {

struct JoinServerState {
  static inline const char* name = "join server";
  JoinServerState() = default;  // not an aggregate: CAF would make the supervisor's handle out of the actor itself
  SupervisorActor supervisor;
};

using JoinServerActor = JoinService::extend<caf::reacts_to<begin_atom, caf::actor>>;

// begin_atom, sent once, names the supervisor. An exit message ends it.
JoinServerActor::behavior_type join_server(JoinServerActor::stateful_pointer<JoinServerState> self);

}  // namespace troupe
