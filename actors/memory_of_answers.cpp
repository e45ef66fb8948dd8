#include "actors/memory_of_answers.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "actors/config/replay_capacity.h"
#include "actors/experience/answers/reward_model_check.h"
#include "actors/memory_bytes.h"
#include "actors/open_evaluations.h"
#include "actors/token_sizes.h"
#include "algorithms/choice/algorithm_choice.h"
#include "models/decoder/activation_bytes.h"
#include "models/learning/answers/answer_targets.h"
#include "models/lm/reward_model.h"
#include "models/shards/shard_sum.h"
#include "runtime/base/file.h"
#include "runtime/base/large_blocks.h"
#include "runtime/base/text_format.h"
#include "runtime/config/setting_rules.h"

namespace troupe {
namespace {

constexpr int64_t kLogitRowsAtOnce = 128;  // of the trainer and of references
constexpr int64_t kTokensOfPass = 1024;    // of a pass before an update, and of one of the reward model

// Whether the memory of a block that nothing uses stays with the process (runtime/base/large_blocks.h).
bool block_is_kept(double bytes) { return bytes <= to_double(LargeBlocks::kMostKept); }

MemoryNeed need_of_model(const TokenSizes& s, double bytes, const std::string& what) {
  const ModelConfig& m = s.config.model;
  return m.path.empty() ? MemoryNeed{"model.decoder", m.decoder, what, bytes}
                        : MemoryNeed{"model.path", m.path, what, bytes};
}

// Weights, gradients with their sums over shards, and two moments. Other weights than the published ones exist from the
// second step of an update on; snapshots are copies where not all weights are published, and exist twice while the next
// one is published.
MemoryNeed of_learner(const TokenSizes& s) {
  const double snapshots = s.critic != CriticKind::none ? 2 : takes_several_steps(s.config) ? 1 : 0;
  const double blocks = 4 + gradient_sums(s.config.trainer.shards);
  return need_of_model(s, blocks * s.trained + snapshots * s.policy, "weights, gradients and moments of the trainer");
}

// So many forms of weights that the trainer has in full: that of the inference actors, of which the first has the next
// version while others have the one before, that of an evaluation during training, and that of the scorers. Between
// two updates the first needs no other memory than the weights of the second step of an update, if these are gone.
double packed_versions(const TokenSizes& s) {
  const bool second_step = takes_several_steps(s.config) && !block_is_kept(s.model);
  return 1 + (s.config.inference.count > 1 && !second_step ? 1 : 0) + (evaluates_during_training(s.config) ? 1 : 0) +
         (s.config.reference.by_scorers() ? 1 : 0);
}

// Of a model with adapters the base alone, and the adapters of the trainer and of each replica with their packed form.
// Else the trainer packs what a pass multiplies with.
MemoryNeed of_packed_weights(const TokenSizes& s) {
  const std::string what = "packed weights of inference actors, evaluations and references";
  const double packed = to_double(packed_bytes(s.shape));
  if (s.lora.used()) {
    const double replicas = to_double(s.config.inference.count) + 1 + (s.config.reference.used() ? 1 : 0);
    return need_of_model(s, packed + s.policy * (2 * replicas + 1), what);
  }
  const double decoders = s.critic == CriticKind::separate ? 2 : 1;
  return need_of_model(s, packed * packed_versions(s) + decoders * to_double(packed_in_pass_bytes(s.shape)), what);
}

// The base of a model with adapters exists beside its packed form while it is read, before what needs `later` bytes.
// With a separate critic it stays.
MemoryNeed of_reading(const TokenSizes& s, double later) {
  const bool stays = s.critic == CriticKind::separate || block_is_kept(s.model);
  const double bytes = stays ? s.model : std::max(0.0, s.model - later);
  return need_of_model(s, s.lora.used() ? bytes : 0, "weights as they are read, beside their packed form");
}

// Its weights in the trainer; where distributions are compared, the hidden rows of a super-batch and its output layer.
MemoryNeed of_reference(const TokenSizes& s) {
  double bytes = s.config.reference.used() ? s.policy : 0;
  if (has_exact_kl(s.config)) {
    bytes += float_bytes(tokens_of_samples(s, s.config.trainer.super_batch)) * to_double(s.shape.hidden);
    if (!s.lora.used()) bytes += float_bytes(s.shape.vocabulary * s.shape.hidden);
  }
  return {"reference.model", s.config.reference.model, "weights of the reference in the trainer", bytes};
}

// Of the policy and its critic, which have them in turn, but for gradients and hidden rows; and the logits with their
// gradients.
MemoryNeed of_activations(const TokenSizes& s) {
  const PassSize pass = training_pass(s);
  double bytes = to_double(pass.tokens) * to_double(activation_bytes(s.shape, pass.recompute));
  if (s.critic == CriticKind::separate)
    bytes += to_double(pass.tokens) * to_double(activation_bytes(s.shape, /*recompute=*/true)) / 2;
  bytes += logit_bytes(s, std::min(pass.tokens, kLogitRowsAtOnce)) * (has_exact_kl(s.config) ? 3 : 2);
  return {"trainer.micro_batch_tokens", setting_text(s.config.trainer.micro_batch_tokens),
          "activations of a micro-batch of " + format_counted(static_cast<uint64_t>(pass.tokens), "token"), bytes};
}

// What the trainer computes with the weights from before an update.
MemoryNeed of_start(const TokenSizes& s) {
  const RunConfig& c = s.config;
  const bool reference = c.reference.used() && !c.reference.by_scorers();
  const AnswerNeeds needs =
      needs_of(choose_algorithm(c.algorithm), c.algorithm, s.critic != CriticKind::none, reference);
  const int64_t tokens = std::min(std::max(kTokensOfPass, s.longest), tokens_of_samples(s, c.trainer.super_batch));
  return {"trainer.super_batch", setting_text(c.trainer.super_batch), "keys and values of passes before an update",
          needs.any() ? pass_bytes(s.shape, tokens) : 0};
}

struct Slots {
  const char* setting = "";  // of the larger part
  int64_t count = 0;
  double bytes = 0;  // keys and values
};

// Of one generator.
Slots slots_of(const TokenSizes& s) {
  const GenerationConfig& g = s.config.generation;
  const int64_t prompts = g.prompt_slots * s.run->prompt_tokens,
                answers = g.answer_slots * s.run->conversation_tokens();
  const double bytes = to_double(prompts + answers) * to_double(kv_bytes(s.shape));
  if (answers >= prompts) return {"generation.answer_slots", g.answer_slots, bytes};
  return {"generation.prompt_slots", g.prompt_slots, bytes};
}

// Of every inference actor.
MemoryNeed of_slots(const TokenSizes& s) {
  const int64_t actors = s.config.inference.count, asked = actors == 0 ? 0 : (s.prompts_asked + actors - 1) / actors;
  const Slots slots = slots_of(s);
  return {slots.setting, setting_text(slots.count), "keys and values of prompts and answers in progress",
          to_double(actors) * (slots.bytes + generation_step_bytes(s, asked, asked * answers_asked(s.config)))};
}

// A pass of the reference over answers.
double reference_pass(const TokenSizes& s) {
  const int64_t tokens = std::min(std::max(s.config.scorers.batch_tokens, s.longest), s.prompts_asked * s.group);
  return pass_bytes(s.shape, tokens) + logit_bytes(s, kLogitRowsAtOnce);
}

// One evaluation. That after training can have the memory of activations, where this is not kept; that of gradients may
// be needed for a packed form, while an inference actor still has the version before.
MemoryNeed of_evaluation(const TokenSizes& s) {
  const EvaluationConfig& e = s.config.evaluation;
  const ReferenceConfig& reference = s.config.reference;
  const Slots slots = slots_of(s);
  double bytes = slots.bytes + generation_step_bytes(s, e.episodes, e.episodes * e.answers);
  if (reference.used()) bytes += reference_pass(s);
  if (reference.used() && !reference.by_scorers() && !s.lora.used()) bytes += to_double(packed_bytes(s.shape));
  const bool after = !evaluates_during_training(s.config) && !block_is_kept(s.trained);
  return {slots.setting, setting_text(slots.count), "an evaluation",
          after ? std::max(0.0, bytes - of_activations(s).bytes) : bytes};
}

// Passes of each scorer that computes with the reference.
MemoryNeed of_scorers(const TokenSizes& s) {
  const ScorersConfig& scorers = s.config.scorers;
  return {"scorers.count", setting_text(scorers.count), "passes of the reference over answers",
          s.config.reference.by_scorers() ? to_double(scorers.count) * reference_pass(s) : 0};
}

// The packed form, the weights as they were read if their memory stays, and the passes.
MemoryNeed of_reward_model(const TokenSizes& s) {
  const RewardModelConfig& reward = s.config.reward_model;
  const std::string what = "weights of the reward model and its passes over answers";
  if (!reward.used() || !missing_reward_model(s.config).empty()) return {"reward_model.path", reward.path, what, 0};
  const LmShape shape = reward_model_shape(posix_disk(), reward.path);
  const double read = float_bytes(lm_parameter_count(shape));
  const int64_t tokens = std::min(s.group, s.run->prompt_tokens + std::max(kTokensOfPass, s.longest));
  return {"reward_model.path", reward.path, what,
          to_double(packed_bytes(shape)) + (block_is_kept(read) ? read : 0) + pass_bytes(shape, tokens)};
}

// Its weights as they are read, if their memory does not stay: before what needs `later` bytes.
MemoryNeed of_reading_reward(const TokenSizes& s, double later) {
  const RewardModelConfig& reward = s.config.reward_model;
  double bytes = 0;
  if (reward.used() && missing_reward_model(s.config).empty()) {
    const double read = float_bytes(lm_parameter_count(reward_model_shape(posix_disk(), reward.path)));
    if (!block_is_kept(read)) bytes = std::max(0.0, read - later);
  }
  return {"reward_model.path", reward.path, "weights of the reward model as they are read", bytes};
}

// An answer in replay: ids, log-probabilities and versions of its tokens, and what it and its group have besides.
double answer_bytes(const TokenSizes& s) {
  constexpr double kRolloutToken = 16, kGroup = 2048, kAnswer = 256;
  return kRolloutToken * to_double(s.longest) + kAnswer + kGroup / to_double(s.config.generation.answers);
}

// Answers in replay, staged and trained on, with the targets of each token. Before the first updates replay has room
// for two super-batches (ReplayStore::room).
MemoryNeed of_answers(const TokenSizes& s) {
  constexpr double kStagedToken = 48;
  const int64_t samples = s.config.trainer.super_batch;
  const auto capacity = static_cast<double>(replay_capacity(s.config.replay, static_cast<uint64_t>(samples)));
  const double held = std::min(capacity, 2 * to_double(samples)) + to_double(samples);
  return {"trainer.super_batch", setting_text(samples), "answers in replay and their training",
          held * answer_bytes(s) + 2 * kStagedToken * to_double(tokens_of_samples(s, samples))};
}

// The entries of the tokenizer, which are read from JSON.
MemoryNeed of_tokenizer(const TokenSizes& s) {
  constexpr double kEntry = 600;
  return {"tokenizer.kind", s.config.tokenizer.kind, "the tokenizer",
          kEntry * to_double(s.run->tokenizer->vocabulary_size())};
}

}  // namespace

std::vector<MemoryNeed> memory_of_answers(const RunConfig& config) {
  const TokenSizes s = token_sizes(config);
  std::vector<MemoryNeed> needs = {of_activations(s), of_start(s),   of_slots(s),    of_evaluation(s),
                                   of_scorers(s),     of_answers(s), of_reference(s)};
  double later = 0;
  const auto add = [&](std::vector<MemoryNeed> more) {
    for (MemoryNeed& need : more) later += need.bytes;
    std::ranges::move(more, std::back_inserter(needs));
  };
  for (const MemoryNeed& need : needs) later += need.bytes;
  const MemoryNeed reward_model = of_reward_model(s);
  if (config.trainer.ranks > 1) add({memory_of_ranks(config, s.trained, answer_bytes(s))});
  add({of_learner(s), of_packed_weights(s), of_reading(s, later + reward_model.bytes)});
  add({of_reading_reward(s, later), reward_model, of_tokenizer(s)});
  std::erase_if(needs, [](const MemoryNeed& need) { return need.bytes == 0; });
  return needs;
}

std::vector<MemoryNeed> possible_memory_of_answers(const RunConfig& config) {
  const TokenSizes s = token_sizes(config);
  std::vector<MemoryNeed> needs = {memory_of_replay(config, answer_bytes(s))};
  if (!config.deterministic && evaluates_during_training(config)) {
    const uint64_t waiting = most_open_evaluations(static_cast<size_t>(s.policy)) - 1;
    needs.push_back({"evaluation.every_updates", setting_text(config.evaluation.every_updates),
                     "weights of evaluations that wait for the one before", static_cast<double>(waiting) * s.policy});
  }
  // As checkpoint_due() says.
  const CheckpointConfig& c = config.checkpoint;
  const bool regular = c.every_updates > 0, evaluated = c.keep_best > 0 && evaluates_during_training(config);
  if (!config.deterministic && (regular || evaluated))
    needs.push_back({regular ? "checkpoint.every_updates" : "checkpoint.keep_best",
                     setting_text(regular ? c.every_updates : c.keep_best),
                     "a checkpoint that is written while the next update changes weights and moments", 3 * s.trained});
  return needs;
}

}  // namespace troupe
