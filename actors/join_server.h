#pragma once
// JoinServer: the only actor of a run that other processes can look up, at the worker port. They get the handles of
// other actors from its replies. It is published before the run begins, so that an address in use is found before
// anything is written. It delegates requests to the supervisor once there is one. Event-based.

#include "actors/messages.h"

namespace troupe {

struct JoinServerState {
  static inline const char* name = "join server";
  // Without this constructor the struct is an aggregate, and CAF would initialize `supervisor` with a pointer to the
  // join server.
  JoinServerState() = default;
  SupervisorActor supervisor;
};

using JoinServerActor = JoinService::extend<caf::reacts_to<begin_atom, caf::actor>>;

// begin_atom brings the handle of the supervisor and is sent once. An exit message ends the join server.
JoinServerActor::behavior_type join_server(SelfPointer<JoinServerActor, JoinServerState> self);

}  // namespace troupe
