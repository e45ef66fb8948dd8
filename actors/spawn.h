#pragma once
// Starts the worker and the inference actor that a run needs: those of an environment or those of a task. Plain
// functions; any thread.

#include "actors/inference.h"
#include "actors/worker.h"

namespace caf {
class actor_system;
}

namespace troupe {

WorkerActor spawn_worker_on(caf::actor_system& system, const RunContextPtr& context, uint64_t worker,
                            const WorkerPeers& peers);
InferenceActor spawn_inference_on(caf::actor_system& system, const RunContextPtr& context, Role role,
                                  InferenceIndex inference_index, const InferencePeers& peers);

}  // namespace troupe
