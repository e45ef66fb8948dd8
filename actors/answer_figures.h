#pragma once
// What is counted of the answers in rollouts. Pure functions, which count nothing for rollouts without answers; any
// thread.

#include <cstdint>

#include "actors/messages.h"
#include "models/rollout_units.h"

namespace troupe {

// Adds the answers of a unit, and their tokens.
void count_answers(const Rollout& rollout, const RolloutUnit& unit, uint64_t& answers, uint64_t& tokens);
// Adds those of the whole rollout as produced.
void count_produced(const Rollout& rollout, AnswerFigures& figures);

// Whether the rollout is a group of answers that all have the same reward.
bool without_spread(const Rollout& rollout);

}  // namespace troupe
