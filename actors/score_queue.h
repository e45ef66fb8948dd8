#pragma once
// ScoreQueue: a worker's requests for scores that wait until one of its scorers is free. A scorer gets one at a time,
// so that little is left to do when the worker ends. Owned by the worker; one thread.

#include <chrono>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "actors/messages.h"

namespace troupe {

class ScoreQueue {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void add(ScoreRequest request, Time now) { waiting_.push_back({std::move(request), now}); }
  void add_idle(const ScorerActor& scorer) { idle_.push_back(scorer); }
  // The oldest request and the scorer that is to get it now; nothing while either is missing.
  std::optional<std::pair<ScoreRequest, ScorerActor>> next(Time now);
  // How long requests have waited, all together.
  std::chrono::nanoseconds waited(Time now) const;

 private:
  struct Waiting {
    ScoreRequest request;
    Time since;
  };

  std::deque<Waiting> waiting_;
  std::vector<ScorerActor> idle_;
  std::chrono::nanoseconds waited_{0};  // of those that a scorer has got
};

}  // namespace troupe
