#pragma once
// What is counted of the answers in rollouts. Pure functions of rollouts of answers; any thread.

#include <cstdint>

#include "models/experience/rollout_units.h"

namespace troupe {

struct AnswerCounts {
  uint64_t answers = 0;
  uint64_t tokens = 0;  // of the answers
  uint64_t cut = 0;     // of the answers, that reached generation.max_tokens
};

// Of the whole rollout.
AnswerCounts count_answers(const Rollout& rollout);
// Of one of its units.
AnswerCounts count_answers_of(const Rollout& rollout, const RolloutUnit& unit);

// Whether all answers have the same reward.
bool without_spread(const Rollout& rollout);

}  // namespace troupe
