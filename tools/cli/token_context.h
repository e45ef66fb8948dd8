#pragma once
// What the commands need for token runs: their models, generators, learners, and the warm-up. No LibTorch. Plain
// functions; main thread.

#include <functional>
#include <memory>
#include <optional>

#include "actors/run_context.h"
#include "models/policy.h"
#include "runtime/stats/snapshot.h"
#include "tools/cli/stop_signals.h"

namespace troupe {

// What workers need.
void add_tokens(RunContext& context);
// add_tokens(), and the signature and generators.
void add_generators(RunContext& context);

std::unique_ptr<Learner> token_learner_of(const RunContext& context);

// Trains a model on demonstrations of the task as warmup.* says, prints its course, and begins the learner with the
// result. Calls `told` at the start and every stats.interval_ms. Does nothing with warmup.steps 0. Nothing if a signal
// stopped it: the learner is then as it was.
std::optional<WarmupResult> warm_up(const RunContext& context, Learner& learner, StopSignals& signals,
                                    const std::function<void(const WarmupUnderWay&)>& told);

// Prints `count` different held-out prompts, or all, with the most likely answers of these weights.
void print_answers(const RunContext& context, const WeightSnapshot& weights, int64_t count);

}  // namespace troupe
