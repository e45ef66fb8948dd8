#pragma once
// ScoreQueue: the graders of a worker, and its requests for scores that wait until one of them is free. A grader gets
// one call at a time, so that little is left to do when the worker ends. Owned by the worker; one thread.

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/experience/common/grader.h"
#include "actors/messages.h"

namespace troupe {

class ScoreQueue {
 public:
  using Graders = std::vector<std::shared_ptr<Grader>>;
  using Time = std::chrono::steady_clock::time_point;

  explicit ScoreQueue(Graders graders) : graders_(std::move(graders)) {}
  // Nobody waits for scores any more: abandons the graders.
  ~ScoreQueue();
  ScoreQueue(const ScoreQueue&) = delete;
  ScoreQueue& operator=(const ScoreQueue&) = delete;

  void add(ScoreRequest request, Time now) { waiting_.push_back({std::move(request), now}); }
  // The actor of one of the graders has nothing to do.
  void add_idle(const GraderActor& grader) { idle_.push_back(grader); }
  // The oldest request, with those of its kind after it that fit into the same call, and the actor that is to get them
  // now; nothing while either is missing.
  std::optional<std::pair<ScoreRequests, GraderActor>> next(Time now);
  // Computes scores on this thread, in place of the actors.
  ScoreReply score_at_once(const ScoreRequest& request) { return score_reply(*graders_.at(0), request); }
  // Of the verifiers of all graders, and how long requests have waited, all together.
  VerifierFigures figures(Time now) const;

 private:
  struct Waiting {
    ScoreRequest request;
    Time since;
  };

  Graders graders_;
  std::deque<Waiting> waiting_;
  std::vector<GraderActor> idle_;
  std::chrono::nanoseconds waited_{0};  // of those that a grader has got
};

}  // namespace troupe
