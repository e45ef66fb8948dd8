#include "actors/score_queue.h"

namespace troupe {

ScoreQueue::~ScoreQueue() {
  for (const std::shared_ptr<Grader>& grader : graders_) grader->abandon();
}

std::optional<std::pair<ScoreRequests, GraderActor>> ScoreQueue::next(Time now) {
  if (waiting_.empty() || idle_.empty()) return std::nullopt;
  const ScoreKind kind = waiting_.front().request.kind;
  const size_t most = graders_.empty() ? 1 : graders_.front()->answers_per_call(kind);
  ScoreRequests requests;
  size_t answers = 0;
  do {
    answers += waiting_.front().request.answers.size();
    waited_ += now - waiting_.front().since;
    requests.of.push_back(std::move(waiting_.front().request));
    waiting_.pop_front();
  } while (!waiting_.empty() && waiting_.front().request.kind == kind &&
           answers + waiting_.front().request.answers.size() <= most);
  const GraderActor grader = idle_.back();
  idle_.pop_back();
  return std::pair(std::move(requests), grader);
}

VerifierFigures ScoreQueue::figures(Time now) const {
  VerifierFigures sum;
  for (const std::shared_ptr<Grader>& grader : graders_) sum += grader->figures();
  std::chrono::nanoseconds waited = waited_;
  for (const Waiting& request : waiting_) waited += now - request.since;
  sum.wait_us = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(waited).count());
  return sum;
}

}  // namespace troupe
