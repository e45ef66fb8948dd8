#pragma once
// EvaluationActor: plays episodes with the most likely actions of one fixed policy version, a few steps for each
// message of the evaluator, so that it can be stopped. Never sends samples to replay. Detached: a step of its
// environment, or a call of a verifier, may take long, or never end.

#include <memory>

#include "actors/experience/common/evaluation_player.h"
#include "actors/experience/common/grader.h"
#include "actors/messages.h"
#include "actors/run_context.h"

namespace troupe {

struct EvaluationActorState {
  static inline const char* name = "evaluation";
  RunContextPtr context;
  std::shared_ptr<Grader> grader;
  std::unique_ptr<EvaluationPlayer> player;
  EvaluateMessage job;  // the current one, if job.weights is set
  uint64_t steps = 0;   // of it
};

EvaluationActor::behavior_type evaluation_actor(SelfPointer<EvaluationActor, EvaluationActorState> self,
                                                RunContextPtr context, std::shared_ptr<Grader> grader);

}  // namespace troupe
