#pragma once
// ScorerActor: scores the answers of one worker with a Scorer, so that the worker never waits for it. Detached in the
// trainer's process; in a process of its own it shares threads as the worker does. It ends when its worker has ended.

#include <memory>

#include "actors/experience/common/scorer.h"
#include "actors/messages.h"

namespace troupe {

struct ScorerActorState {
  static inline const char* name = "scorer";
};

ScorerActor::behavior_type scorer_actor(SelfPointer<ScorerActor, ScorerActorState> self, std::shared_ptr<Scorer> scorer,
                                        const WorkerActor& worker);

}  // namespace troupe
