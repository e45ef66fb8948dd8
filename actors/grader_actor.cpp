#include "actors/grader_actor.h"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/caf/system.h"

namespace troupe {

GraderActor::behavior_type grader_actor(SelfPointer<GraderActor, GraderActorState> self, std::shared_ptr<Grader> grader,
                                        const WorkerActor& worker, const RunContextPtr& context) {
  begin_actor(self, *context);
  self->monitor(worker);
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  return {[self, grader](const ScoreRequests& requests) {
    const caf::strong_actor_ptr sender = self->current_sender();
    if (sender) self->send(caf::actor_cast<ScoreReceiver>(sender), score_replies(*grader, requests));
  }};
}

}  // namespace troupe
