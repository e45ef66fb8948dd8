#pragma once
// Scoring plane: what a worker of a token run asks its scorer, and the scores. These messages stay in one process.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace troupe {

struct ScoreRequest {
  uint64_t id = 0;
  uint32_t group = 0;
  Prompt prompt;
  std::vector<std::string> answers;
  std::vector<std::vector<int32_t>> tokens = {};  // of each answer
};

struct ScoreReply {
  uint64_t id = 0;
  uint32_t group = 0;
  std::vector<Score> scores;  // one per answer, in their order
  std::string error;          // why there are none
  std::chrono::nanoseconds spent{0};
};

// Requests that a scorer computes together, and its replies to them, in their order.
struct ScoreRequests {
  std::vector<ScoreRequest> of;
};

struct ScoreReplies {
  std::vector<ScoreReply> of;
};

}  // namespace troupe
