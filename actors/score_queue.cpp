#include "actors/score_queue.h"

namespace troupe {

ScoreQueue::~ScoreQueue() {
  for (const std::shared_ptr<Scorer>& scorer : scorers_) scorer->abandon();
}

std::optional<std::pair<ScoreRequest, ScorerActor>> ScoreQueue::next(Time now) {
  if (waiting_.empty() || idle_.empty()) return std::nullopt;
  std::pair<ScoreRequest, ScorerActor> result(std::move(waiting_.front().request), idle_.back());
  waited_ += now - waiting_.front().since;
  waiting_.pop_front();
  idle_.pop_back();
  return result;
}

VerifierFigures ScoreQueue::figures(Time now) const {
  VerifierFigures sum;
  for (const std::shared_ptr<Scorer>& scorer : scorers_) sum += scorer->figures();
  std::chrono::nanoseconds waited = waited_;
  for (const Waiting& request : waiting_) waited += now - request.since;
  sum.wait_us = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(waited).count());
  return sum;
}

}  // namespace troupe
