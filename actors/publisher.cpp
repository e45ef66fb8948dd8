#include "actors/publisher.h"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/caf_system.h"

namespace troupe {

PublisherActor::behavior_type publisher(PublisherActor::stateful_pointer<PublisherState> self) {
  guard(self);
  self->set_down_handler([self](const caf::down_msg& down) {
    std::erase_if(self->state.receivers, [&](const WeightsHolder& receiver) { return receiver.address() == down.source; });
  });
  return {
      [self](const WeightsMessage& message) {
        auto& st = self->state;
        TROUPE_CHECK(!st.current || st.current->version <= message.weights->version, st.current->version.text(),
                     message.weights->version.text());
        st.current = message.weights;
        for (const WeightsHolder& receiver : st.receivers) self->send(receiver, message);
      },
      [self](next_atom) {
        auto& st = self->state;
        auto receiver = caf::actor_cast<WeightsHolder>(self->current_sender());
        self->monitor(receiver);
        st.receivers.push_back(receiver);
        if (st.current) self->send(receiver, WeightsMessage{st.current});
      },
      [self](const Stop&) { self->quit(); },
  };
}

}  // namespace troupe
