#pragma once
// ScoreOrder: the requests for scores that a sampler has made. Scores are taken in the order of the requests, in
// whatever order they come, so that the numbers of rollouts and the use of credits do not depend on how long scoring
// takes. One thread.

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages/scoring.h"

namespace troupe {

class ScoreOrder {
 public:
  static constexpr uint32_t kMostFailures = 10;  // takes about 3 s

  struct Scored {
    uint32_t group = 0;
    std::vector<Score> scores;
  };

  // Adds a request for the scores of a group; returns its number.
  uint64_t add(uint32_t group);
  // Whether the reply is to a request that is being scored.
  bool awaits(const ScoreReply& reply) const;
  // Keeps the scores of a request that is being scored.
  void put(uint64_t id, std::vector<Score> scores);
  // A request that is being scored has failed. Returns after how long to ask again. Throws ScoringFailed when it has
  // failed kMostFailures times.
  std::chrono::milliseconds failed(uint64_t id, const std::string& error);
  // Whether the request has failed: it is then being scored again.
  bool ask_again(uint64_t id);
  // Takes back a request that is being scored.
  void drop(uint64_t id);
  // Takes the scores of the oldest request, once they have come.
  std::optional<Scored> next();

  bool empty() const { return requests_.empty(); }
  // Requests that are being scored.
  size_t outstanding() const;

 private:
  enum class State : uint8_t { asked, failed, scored };
  struct Request {
    uint64_t id = 0;
    State state = State::asked;
    uint32_t failures = 0;
    Scored scored;
  };

  Request* find(uint64_t id, State state);

  std::deque<Request> requests_;  // oldest first
  uint64_t next_id_ = 1;
};

}  // namespace troupe
