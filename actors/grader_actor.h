#pragma once
// GraderActor: scores the answers of one worker with a Grader, so that the worker never waits for it. Detached in the
// trainer's process; in a process of its own it shares threads as the worker does. It ends when its worker has ended.

#include <memory>

#include "actors/experience/common/grader.h"
#include "actors/messages.h"
#include "actors/run_context.h"

namespace troupe {

struct GraderActorState {
  static inline const char* name = "grader";
};

GraderActor::behavior_type grader_actor(SelfPointer<GraderActor, GraderActorState> self, std::shared_ptr<Grader> grader,
                                        const WorkerActor& worker, const RunContextPtr& context);

}  // namespace troupe
