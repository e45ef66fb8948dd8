#pragma once
// Evaluator: plays episodes with the most likely actions of one pinned policy version and reports to stats, under its own name,
// and to whoever asked. Never
// writes to replay. Every row plays its share of the episodes, so short episodes are not over-represented. Detached; works in
// slices so that it can be stopped.

#include <memory>
#include <vector>

#include "actors/messages.h"
#include "actors/wiring.h"

namespace troupe {

struct EvaluatorState {
  static inline const char* name = "evaluator";
  WiringPtr wiring;
  StatsActor stats;
  std::unique_ptr<Policy> policy;
  std::unique_ptr<Env> env;
  EnvStep step;
  EvaluateMessage job;      // under way when job.weights is set
  EvaluateMessage waiting;  // the newest that came meanwhile
  caf::strong_actor_ptr asker, next_asker;  // who gets the result
  std::vector<int64_t> share, done;  // episodes per row: to play, and played
  std::vector<double> returns, row_return;
  std::vector<int64_t> lengths, row_length;
  uint64_t successes = 0;
  uint64_t failures = 0;
};

EvaluatorActor::behavior_type evaluator(EvaluatorActor::stateful_pointer<EvaluatorState> self, WiringPtr wiring,
                                        StatsActor stats);

}  // namespace troupe
