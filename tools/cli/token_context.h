#pragma once
// What the commands need for token runs: their models, generators and learners. No LibTorch. Plain
// functions; main thread.

#include <memory>

#include "actors/run_context.h"
#include "models/policy.h"

namespace troupe {

// What workers need.
void add_tokens(RunContext& context);
// add_tokens(), and the signature and generators.
void add_generators(RunContext& context);

std::unique_ptr<Learner> token_learner_of(const RunContext& context);

// Prints `count` different held-out prompts, or all, with the most likely answers of these weights.
void print_answers(const RunContext& context, const WeightSnapshot& weights, int64_t count);

}  // namespace troupe
