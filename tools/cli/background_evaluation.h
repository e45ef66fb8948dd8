#pragma once
// BackgroundEvaluation: an evaluation on a thread of its own, so that its owner can watch it and end it at any time,
// also while the environment is inside a step. Owned by a command; used by one thread.

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "actors/experience/common/evaluation_player.h"
#include "actors/run_context.h"

namespace troupe {

class BackgroundEvaluation {
 public:
  // Begins.
  BackgroundEvaluation(const RunContextPtr& context, const WeightsPtr& weights, const EvaluationPlan& plan);
  // Ends it. If that takes longer than kFarewell, the thread is left to the end of the process.
  ~BackgroundEvaluation();
  BackgroundEvaluation(const BackgroundEvaluation&) = delete;
  BackgroundEvaluation& operator=(const BackgroundEvaluation&) = delete;

  // Whether it is over; waits for that at most this long. Throws what ended it, if that was an exception.
  bool wait(std::chrono::milliseconds time) const;
  // How many episodes or answers it plays; 0 before the first step.
  uint64_t planned() const;
  // Of the episodes that have ended.
  EpisodeSummary so_far() const;
  // The lines of answers.jsonl about the answers that have ended.
  std::string answers() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace troupe
