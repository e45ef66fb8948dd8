#include "actors/spawn.h"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/caf/system.h"

namespace troupe {

WorkerActor spawn_worker_on(caf::actor_system& system, const RunContextPtr& context, uint64_t worker,
                            const WorkerPeers& peers) {
  return spawn_on(system, context->threads, worker_actor, context, worker, peers);
}

InferenceActor spawn_inference_on(caf::actor_system& system, const RunContextPtr& context, Role role,
                                  InferenceIndex inference_index, const InferencePeers& peers) {
  return spawn_on(system, context->threads, inference_actor, context, role, inference_index, peers);
}

}  // namespace troupe
