#pragma once
// Scoring plane: what a worker of a token run asks its grader, and the scores. These messages stay in one process.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace troupe {

// What only some graders read of an answer.
struct AnswerDetails {
  std::vector<int32_t> tokens;     // ids of all that follows the prompt; the last is an end token unless it was cut
  std::vector<Turn> earlier = {};  // the turns before the answer
};

// What is asked for: the scores of answers, or what the task says to them.
enum class ScoreKind : uint8_t { scores, replies };

struct ScoreRequest {
  uint64_t id = 0;
  uint32_t group = 0;
  Prompt prompt;
  std::vector<std::string> answers;
  std::vector<AnswerDetails> details = {};  // of each answer
  ScoreKind kind = ScoreKind::scores;
};

struct ScoreReply {
  uint64_t id = 0;
  uint32_t group = 0;
  std::vector<Score> scores;  // one per answer, in their order
  std::string error;          // why there are none
  std::chrono::nanoseconds spent{0};
  std::vector<Reply> replies = {};  // in place of the scores
  ScoreKind kind = ScoreKind::scores;
};

// Requests that a grader computes together, and its replies to them, in their order.
struct ScoreRequests {
  std::vector<ScoreRequest> of;
};

struct ScoreReplies {
  std::vector<ScoreReply> of;
};

}  // namespace troupe
