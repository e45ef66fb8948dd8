#pragma once
// Evaluator: plays episodes with the most likely actions of one pinned policy version and reports to stats, under its
// own name, and to whoever asked. Never writes to replay. Detached; works in slices so that it can be stopped.

#include <memory>
#include <optional>

#include "actors/episode_player.h"
#include "actors/messages.h"
#include "actors/run_context.h"

namespace troupe {

struct EvaluatorState {
  static inline const char* name = "evaluator";
  RunContextPtr context;
  StatsActor stats;
  std::unique_ptr<Policy> policy;
  std::optional<EpisodePlayer> player;      // of the job under way
  EvaluateMessage job;                      // under way when job.weights is set
  EvaluateMessage waiting;                  // the newest that came meanwhile
  caf::strong_actor_ptr asker, next_asker;  // who gets the result
};

EvaluatorActor::behavior_type evaluator(EvaluatorActor::stateful_pointer<EvaluatorState> self, RunContextPtr context,
                                        StatsActor stats);

}  // namespace troupe
