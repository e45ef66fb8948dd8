#pragma once
// Evaluator: has every evaluation that it is asked for played, one after the other, and reports each result to stats
// and to the actor that asked. An evaluation in which no episode ends for evaluation.timeout_ms ends with what it has,
// also if its environment is still inside a step. Event-based; an EvaluationActor plays.

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "actors/experience/common/grader.h"
#include "actors/messages.h"
#include "actors/open_evaluations.h"
#include "actors/run_context.h"

namespace troupe {

// "the policies after updates 20, 40 and 60".
std::string policies_text(const std::vector<uint64_t>& updates);

struct EvaluatorState {
  static inline const char* name = "evaluator";
  struct Job {
    EvaluateMessage message;
    caf::strong_actor_ptr asker;  // gets the result
  };

  RunContextPtr context;
  StatsActor stats;
  EvaluationActor actor;           // plays the first of `jobs`; null before the first one, and after it was given up
  std::shared_ptr<Grader> grader;  // of `actor`; null in runs without answers
  std::vector<EvaluationActor> given_up;  // that have not ended: most are inside a step or a start of an environment
  std::deque<Job> jobs;                   // the first is under way: its actor alone has the values of its weights
  size_t snapshot_bytes = 0;              // of these
  Evaluation so_far;                      // of the first
  std::string answers;                    // of the first: lines for answers.jsonl
  uint64_t planned = 0, failures = 0;     // of the first, as in EvaluationSlice
  uint64_t steps = 0, steps_at_end = 0;   // of the first: made, and when an episode last ended
  std::chrono::steady_clock::time_point started, last_end;
  bool beats = false;           // a beat is on its way
  bool told_left_out = false;   // that an evaluation is not made, since the last one that was
  bool told_of_warmup = false;  // that a check of it lacks scores
  bool stopping = false;
};

EvaluatorActor::behavior_type evaluator(SelfPointer<EvaluatorActor, EvaluatorState> self, RunContextPtr context,
                                        StatsActor stats);

}  // namespace troupe
