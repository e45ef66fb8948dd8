#pragma once
// What is counted of the answers in rollouts. Pure functions of rollouts of answers; any thread.

#include "models/experience/rollout_units.h"
#include "models/experience/sample_tokens.h"

namespace troupe {

// Of one unit of the rollout; null: of all.
SampleTokens count_answers(const Rollout& rollout, const RolloutUnit* unit);

// The same, of a unit whose tokens by versions with a number below `least` are masked.
TokenSplit split_answers(const Rollout& rollout, const RolloutUnit& unit, uint64_t least);

// Whether all answers have the same reward.
bool without_spread(const Rollout& rollout);

}  // namespace troupe
