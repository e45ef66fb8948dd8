#pragma once
// The rollout that is made of the answers to a prompt when all of them have been scored. Pure functions; any thread.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "actors/messages/experience.h"
#include "tasks/task.h"

namespace troupe {

// All answers to a prompt that were asked for, of which the last one may be greedy.
struct AnsweredGroup {
  Array prompt;  // [P] int32
  uint32_t epoch = 0;
  AnswerReply answers;      // in all turns
  MessageTokens messages;   // between them
  Array turn_rewards;       // [T] as in Answers, or empty
  Array reference;          // [T] as in ScoringReply, or empty
  std::string source = {};  // Prompt::source
};

// The rollout with the answers that have a score, or none of them where fewer than `fewest` do, or where the greedy one
// has none. Its worker, group and sequence are the caller's.
std::shared_ptr<Rollout> rollout_of(const RunConfig& config, size_t fewest, const AnsweredGroup& group,
                                    const std::vector<Score>& scores);

}  // namespace troupe
