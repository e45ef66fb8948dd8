#pragma once
// TokenSizes: the sizes of a token run's model, prompts and answers, from which the estimate of its memory is computed.
// Plain values; any thread.

#include <cstdint>
#include <memory>
#include <string>

#include "actors/config/run_config.h"
#include "actors/experience/answers/token_run.h"
#include "models/decoder/lm_shape.h"
#include "models/decoder/lora.h"
#include "models/lm/lm_model.h"

namespace troupe {

struct TokenSizes {
  const RunConfig& config;
  std::shared_ptr<const TokenRun> run;
  LmShape shape;
  LoraConfig lora;
  CriticKind critic = CriticKind::none;
  // Bytes.
  double model = 0;    // all weights of the policy
  double policy = 0;   // those that are trained: all, or the adapters
  double trained = 0;  // with a separate critic
  // Tokens.
  int64_t longest = 0;  // prompt and answer
  int64_t group = 0;    // a prompt with its answers, whose last tokens no pass of training reads
  // What workers of this process ask for at the same time; of those in other processes as much as slots allow.
  int64_t prompts_asked = 0;
};

// Reads the prompts and the tokenizer as shared_token_run() does. The config must outlive the result.
TokenSizes token_sizes(const RunConfig& config);

// Tokens of so many answers with their prompts.
int64_t tokens_of_samples(const TokenSizes& sizes, int64_t samples);

struct PassSize {
  int64_t tokens = 0;
  bool recompute = false;
};
// The largest pass of training: a micro-batch, or a whole minibatch that is smaller.
PassSize training_pass(const TokenSizes& sizes);
// What a user is told of it, in one line.
std::string training_pass_text(const RunConfig& config);

// Logits of so many rows.
double logit_bytes(const TokenSizes& sizes, int64_t rows);
// A pass without gradients over so many tokens, with its keys and values.
double pass_bytes(const LmShape& shape, int64_t tokens);
// The largest step of a generator that so many prompts and answers are asked of.
double generation_step_bytes(const TokenSizes& sizes, int64_t prompts, int64_t answers);

// Whether an update has several optimizer steps.
bool takes_several_steps(const RunConfig& config);
// Whether an evaluation may go on while updates change the weights.
bool evaluates_during_training(const RunConfig& config);
// Whether the loss compares whole distributions with those of the reference.
bool has_exact_kl(const RunConfig& config);

}  // namespace troupe
