#include "actors/join_server.h"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/caf/system.h"

namespace troupe {

JoinServerActor::behavior_type join_server(SelfPointer<JoinServerActor, JoinServerState> self) {
  guard(self);
  return {
      [self](const JoinRequest& request) -> caf::result<Welcome> {
        if (self->state.supervisor) return self->delegate(self->state.supervisor, request);
        return make_error(Fault::not_ready, "the run has not begun");
      },
      [self](const ServeRequest& request) -> caf::result<void> {
        if (self->state.supervisor) return self->delegate(self->state.supervisor, request);
        return make_error(Fault::not_ready, "the run has not begun");
      },
      [self](const RankReady& ready) -> caf::result<void> {
        if (self->state.supervisor) return self->delegate(self->state.supervisor, ready);
        return make_error(Fault::not_ready, "the run has not begun");
      },
      [self](const Serving& serving) {
        if (self->state.supervisor) self->delegate(self->state.supervisor, serving);
      },
      [self](begin_atom, const caf::actor& supervisor) {
        // Only this process sends it: a peer that does is disconnected (actors/network_messages.cpp).
        if (!self->state.supervisor) self->state.supervisor = caf::actor_cast<SupervisorActor>(supervisor);
      },
  };
}

}  // namespace troupe
