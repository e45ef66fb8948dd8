#pragma once
// What the commands need for token runs: their models, generators and learners. No LibTorch. Plain
// functions; main thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "actors/run_context.h"
#include "models/policy.h"

namespace troupe {

// What workers need.
void add_tokens(RunContext& context);
// What processes that score answers need besides. Reads the weights of the reward model, if there is one.
void add_reward_model(RunContext& context);
// add_tokens(), and the signature and generators.
void add_generators(RunContext& context);

// Whether the reward of an answer says more than whether it is right.
bool has_graded_rewards(const RunConfig& config);

std::unique_ptr<Learner> token_learner_of(const RunContext& context);

// Prints `count` different held-out prompts, or all, with the most likely answers of these weights.
void print_answers(const RunContext& context, const WeightSnapshot& weights, int64_t count);

struct PromptOfUser {
  std::string text;
  bool greedy = false;
  std::optional<double> temperature;  // of samples; nullopt = the run's
  int64_t answers = 1;
};

// Prints answers of these weights to a prompt, one per line. Throws ConfigError "--prompt: ..." for a text that the
// model cannot read.
void print_answers_to(const RunContext& context, const WeightSnapshot& weights, const PromptOfUser& prompt);

}  // namespace troupe
