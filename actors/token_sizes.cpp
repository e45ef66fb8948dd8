#include "actors/token_sizes.h"

#include <algorithm>
#include <vector>

#include "actors/experience/answers/shared_token_run.h"
#include "actors/experience/answers/token_micro_batch.h"
#include "actors/memory_bytes.h"
#include "models/decoder/activation_bytes.h"
#include "models/lm/lm_config.h"

namespace troupe {
namespace {

double adapter_bytes(const LmShape& shape, const LoraConfig& lora) {
  int64_t elements = 0;
  for (const LmTensor& tensor : lora_tensors(shape, lora)) elements += tensor.shape.elements();
  return float_bytes(elements);
}

}  // namespace

TokenSizes token_sizes(const RunConfig& config) {
  TokenSizes s{.config = config, .run = shared_token_run(config), .shape = {}, .lora = {}};
  s.longest = s.run->prompt_tokens + s.run->conversation_tokens();
  s.shape = lm_shape_of(config.model, s.run->tokenizer->vocabulary_size(), s.longest);
  s.lora = lora_from_config(config.model.lora, "model.lora");
  s.critic = find_critic(config.model.critic);
  s.model = float_bytes(lm_parameter_count(s.shape));
  s.policy = s.lora.used() ? adapter_bytes(s.shape, s.lora) : s.model;
  s.trained = s.policy + (s.critic == CriticKind::separate ? s.model : 0);
  s.group = s.run->prompt_tokens + config.generation.answers * (s.run->conversation_tokens() - 1);
  s.prompts_asked =
      config.workers.count == 0 ? config.generation.prompt_slots : config.workers.count * config.workers.groups;
  return s;
}

int64_t tokens_of_samples(const TokenSizes& sizes, int64_t samples) {
  const int64_t answers = sizes.config.generation.answers;
  return (samples + answers - 1) / answers * sizes.group;
}

// The micro-batches of a minibatch have about the same size. A step of a warm-up has one demonstration for each prompt.
PassSize training_pass(const TokenSizes& sizes) {
  const TrainerConfig& t = sizes.config.trainer;
  const WarmupConfig& warmup = sizes.config.warmup;
  const MicroBatchChoice choice = micro_batch_of(sizes.config);
  const int64_t minibatch = tokens_of_samples(sizes, (t.super_batch + t.minibatches - 1) / t.minibatches);
  const int64_t all = std::max(minibatch, warmup.steps > 0 ? warmup.batch * sizes.longest : 0);
  int64_t tokens = all;
  if (choice.tokens > 0 && all > choice.tokens) {
    const int64_t parts = (all + choice.tokens - 1) / choice.tokens;
    tokens = std::min(choice.tokens, all / parts + sizes.longest);
  }
  return {tokens, tokens > choice.recompute_above};
}

std::string training_pass_text(const RunConfig& config) {
  const PassSize pass = training_pass(token_sizes(config));
  return text_of(micro_batch_of(config), pass.tokens, pass.recompute);
}

double logit_bytes(const TokenSizes& sizes, int64_t rows) {
  return float_bytes(rows) * to_double(sizes.shape.vocabulary);
}

double pass_bytes(const LmShape& shape, int64_t tokens) {
  return to_double(tokens) * to_double(forward_bytes(shape) + kv_bytes(shape));
}

double generation_step_bytes(const TokenSizes& sizes, int64_t prompts, int64_t answers) {
  const GenerationConfig& g = sizes.config.generation;
  const int64_t of_prompts = std::min(g.prefill_tokens, std::min(prompts, g.prompt_slots) * sizes.run->prompt_tokens);
  const int64_t of_answers = std::min(answers, g.answer_slots);
  return to_double(of_prompts + of_answers) * to_double(forward_bytes(sizes.shape)) + logit_bytes(sizes, of_answers);
}

bool takes_several_steps(const RunConfig& config) {
  const TrainerConfig& t = config.trainer;
  return t.minibatches * std::max(t.epochs, t.value_epochs) > 1;
}

bool evaluates_during_training(const RunConfig& config) {
  const int64_t every = config.evaluation.every_updates, most = config.stop.updates;
  return every > 0 && (most == 0 || every < most);
}

bool has_exact_kl(const RunConfig& config) {
  return config.reference.used() && reference_kl(config.reference).kind == KlKind::full;
}

}  // namespace troupe
