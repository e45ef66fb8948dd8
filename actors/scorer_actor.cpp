#include "actors/scorer_actor.h"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/caf/system.h"

namespace troupe {

ScorerActor::behavior_type scorer_actor(SelfPointer<ScorerActor, ScorerActorState> self, std::shared_ptr<Scorer> scorer,
                                        const WorkerActor& worker) {
  guard(self);
  self->monitor(worker);
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  return {[self, scorer](const ScoreRequests& requests) {
    const caf::strong_actor_ptr sender = self->current_sender();
    if (sender) self->send(caf::actor_cast<ScoreReceiver>(sender), score_replies(*scorer, requests));
  }};
}

}  // namespace troupe
