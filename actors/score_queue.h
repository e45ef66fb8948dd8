#pragma once
// ScoreQueue: the scorers of a worker, and its requests for scores that wait until one of them is free. A scorer gets
// one call at a time, so that little is left to do when the worker ends. Owned by the worker; one thread.

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/experience/common/scorer.h"
#include "actors/messages.h"

namespace troupe {

class ScoreQueue {
 public:
  using Scorers = std::vector<std::shared_ptr<Scorer>>;
  using Time = std::chrono::steady_clock::time_point;

  explicit ScoreQueue(Scorers scorers) : scorers_(std::move(scorers)) {}
  // Nobody waits for scores any more: abandons the scorers.
  ~ScoreQueue();
  ScoreQueue(const ScoreQueue&) = delete;
  ScoreQueue& operator=(const ScoreQueue&) = delete;

  void add(ScoreRequest request, Time now) { waiting_.push_back({std::move(request), now}); }
  // The actor of one of the scorers has nothing to do.
  void add_idle(const ScorerActor& scorer) { idle_.push_back(scorer); }
  // The oldest request, with those of its kind after it that fit into the same call, and the actor that is to get them
  // now; nothing while either is missing.
  std::optional<std::pair<ScoreRequests, ScorerActor>> next(Time now);
  // Computes scores on this thread, in place of the actors.
  ScoreReply score_at_once(const ScoreRequest& request) { return score_reply(*scorers_.at(0), request); }
  // Of the verifiers of all scorers, and how long requests have waited, all together.
  VerifierFigures figures(Time now) const;

 private:
  struct Waiting {
    ScoreRequest request;
    Time since;
  };

  Scorers scorers_;
  std::deque<Waiting> waiting_;
  std::vector<ScorerActor> idle_;
  std::chrono::nanoseconds waited_{0};  // of those that a scorer has got
};

}  // namespace troupe
