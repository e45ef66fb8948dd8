#pragma once
// Evaluator: plays episodes with the most likely actions of one fixed policy version and reports the result to stats
// and to the actor that requested it. Never sends samples to replay. Detached; plays a few steps at a time so that it
// can be stopped.

#include <memory>

#include "actors/evaluation_player.h"
#include "actors/messages.h"
#include "actors/run_context.h"

namespace troupe {

struct EvaluatorState {
  static inline const char* name = "evaluator";
  RunContextPtr context;
  StatsActor stats;
  std::unique_ptr<EvaluationPlayer> player;
  EvaluateMessage job;                      // the current job, if job.weights is set
  EvaluateMessage waiting;                  // the newest request that arrived during it
  caf::strong_actor_ptr asker, next_asker;  // who gets the result
};

EvaluatorActor::behavior_type evaluator(SelfPointer<EvaluatorActor, EvaluatorState> self, RunContextPtr context,
                                        StatsActor stats);

}  // namespace troupe
