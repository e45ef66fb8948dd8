#include "actors/score_queue.h"

namespace troupe {

std::optional<std::pair<ScoreRequest, ScorerActor>> ScoreQueue::next(Time now) {
  if (waiting_.empty() || idle_.empty()) return std::nullopt;
  std::pair<ScoreRequest, ScorerActor> result(std::move(waiting_.front().request), idle_.back());
  waited_ += now - waiting_.front().since;
  waiting_.pop_front();
  idle_.pop_back();
  return result;
}

std::chrono::nanoseconds ScoreQueue::waited(Time now) const {
  std::chrono::nanoseconds sum = waited_;
  for (const Waiting& request : waiting_) sum += now - request.since;
  return sum;
}

}  // namespace troupe
