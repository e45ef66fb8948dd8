#include "actors/memory_of_answers.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "actors/config/replay_capacity.h"
#include "actors/experience/answers/reward_model_check.h"
#include "actors/experience/answers/shared_token_run.h"
#include "actors/experience/answers/token_micro_batch.h"
#include "algorithms/choice/algorithm_choice.h"
#include "models/decoder/activation_bytes.h"
#include "models/decoder/lora.h"
#include "models/learning/answers/answer_targets.h"
#include "models/lm/lm_config.h"
#include "models/lm/lm_model.h"
#include "models/lm/reward_model.h"
#include "runtime/base/file.h"
#include "runtime/base/large_blocks.h"
#include "runtime/config/setting_rules.h"

namespace troupe {
namespace {

constexpr double kFloat = 4;
constexpr int64_t kLogitRows = 128;     // of the trainer and of references, which exist at once
constexpr int64_t kStartTokens = 1024;  // of a pass before an update, and of one of the reward model

double count(int64_t value) { return static_cast<double>(value); }

int64_t elements(const std::vector<LmTensor>& tensors) {
  int64_t sum = 0;
  for (const LmTensor& tensor : tensors) sum += tensor.shape.elements();
  return sum;
}

// Whether the memory of a block that nothing uses stays with the process (runtime/base/large_blocks.h).
bool is_kept(double bytes) { return bytes <= count(LargeBlocks::kMostKept); }

// What the needs of a run are computed from.
class TokenMemory {
 public:
  explicit TokenMemory(const RunConfig& config)
      : config_(config),
        run_(shared_token_run(config)),
        shape_(lm_shape_of(config.model, run_->tokenizer->vocabulary_size(), longest())),
        lora_(lora_from_config(config.model.lora, "model.lora")),
        critic_(find_critic(config.model.critic)),
        choice_(choose_algorithm(config.algorithm)) {}

  std::vector<MemoryNeed> needs() const;
  MemoryNeed checkpoint() const;

 private:
  MemoryNeed of_model(double bytes, const std::string& what) const;
  MemoryNeed of_learner() const;
  MemoryNeed of_packed_weights() const;
  MemoryNeed of_reading(double later) const;
  MemoryNeed of_reference() const;
  MemoryNeed of_activations() const;
  MemoryNeed of_start() const;
  MemoryNeed of_slots() const;
  MemoryNeed of_scorers() const;
  MemoryNeed of_reward_model() const;
  MemoryNeed of_super_batch() const;
  MemoryNeed of_tokenizer() const;

  // Tokens.
  int64_t longest() const { return run_->prompt_tokens + run_->conversation_tokens(); }
  // Of a prompt with its answers, whose last tokens no pass of training reads.
  int64_t group_tokens() const {
    return run_->prompt_tokens + config_.generation.answers * (run_->conversation_tokens() - 1);
  }
  int64_t tokens_of_samples(int64_t samples) const { return groups_of(samples) * group_tokens(); }
  int64_t groups_of(int64_t samples) const {
    return (samples + config_.generation.answers - 1) / config_.generation.answers;
  }
  // Of the largest minibatch, or step of the warm-up.
  int64_t minibatch_tokens() const;
  // Of the largest pass of training.
  int64_t pass_tokens(const MicroBatchChoice& choice) const;
  // That workers ask for at the same time. Those of other processes are not known, but slots bound them.
  int64_t prompts_asked() const {
    return config_.workers.count == 0 ? config_.generation.prompt_slots
                                      : config_.workers.count * config_.workers.groups;
  }

  // Bytes.
  double model() const { return kFloat * count(lm_parameter_count(shape_)); }
  double policy() const { return lora_.used() ? kFloat * count(elements(lora_tensors(shape_, lora_))) : model(); }
  double critic() const { return critic_ == CriticKind::separate ? model() : 0; }
  double trained() const { return policy() + critic(); }
  double logits(int64_t rows) const { return kFloat * count(rows * shape_.vocabulary); }
  // A pass without gradients, with its keys and values.
  double pass(int64_t tokens) const { return count(tokens * (forward_bytes(shape_) + kv_bytes(shape_))); }
  // The largest step of a generator that so many prompts and answers are asked of.
  double generation_step(int64_t prompts, int64_t answers) const;

  // Optimizer steps of an update.
  bool takes_several_steps() const {
    const TrainerConfig& t = config_.trainer;
    return t.minibatches * std::max(t.epochs, t.value_epochs) > 1;
  }
  bool evaluates_during_training() const {
    const int64_t every = config_.evaluation.every_updates, most = config_.stop.updates;
    return every > 0 && (most == 0 || every < most);
  }
  bool has_exact_kl() const { return config_.reference.used() && reference_kl(config_.reference).kind == KlKind::full; }
  // Snapshots are copies where not all of the weights are published.
  bool copies_snapshots() const { return critic_ != CriticKind::none; }

  const RunConfig& config_;
  std::shared_ptr<const TokenRun> run_;
  LmShape shape_;
  LoraConfig lora_;
  CriticKind critic_;
  AlgorithmChoice choice_;
};

int64_t TokenMemory::minibatch_tokens() const {
  const TrainerConfig& t = config_.trainer;
  const int64_t training = tokens_of_samples((t.super_batch + t.minibatches - 1) / t.minibatches);
  return std::max(training, config_.warmup.steps > 0 ? config_.warmup.batch * longest() : 0);
}

// The micro-batches of a minibatch have about the same size.
int64_t TokenMemory::pass_tokens(const MicroBatchChoice& choice) const {
  const int64_t all = minibatch_tokens();
  if (choice.tokens == 0 || all <= choice.tokens) return all;
  const int64_t parts = (all + choice.tokens - 1) / choice.tokens;
  return std::min(choice.tokens, all / parts + longest());
}

double TokenMemory::generation_step(int64_t prompts, int64_t answers) const {
  const GenerationConfig& g = config_.generation;
  const int64_t of_prompts = std::min(g.prefill_tokens, std::min(prompts, g.prompt_slots) * run_->prompt_tokens);
  const int64_t of_answers = std::min(answers, g.answer_slots);
  return count((of_prompts + of_answers) * forward_bytes(shape_)) + logits(of_answers);
}

MemoryNeed TokenMemory::of_model(double bytes, const std::string& what) const {
  const ModelConfig& m = config_.model;
  return m.path.empty() ? MemoryNeed{"model.decoder", m.decoder, what, bytes}
                        : MemoryNeed{"model.path", m.path, what, bytes};
}

// Weights, gradients and two moments. Other weights than the published ones exist from the second step of an update on;
// snapshots that are copies exist twice while the next one is published.
MemoryNeed TokenMemory::of_learner() const {
  const double snapshots = copies_snapshots() ? 2 : takes_several_steps() ? 1 : 0;
  return of_model(4 * trained() + snapshots * policy(), "weights, gradients and moments of the trainer");
}

// One form for each version in use: that of the inference actors, of which the first has the next version while others
// have the one before, that of an evaluation during training, and that of the reference. Of a model with adapters the
// base alone, and the adapters of the trainer and of each replica with their packed form. The trainer packs what a pass
// multiplies with.
MemoryNeed TokenMemory::of_packed_weights() const {
  const std::string what = "packed weights of inference actors, evaluations and references";
  const bool reference = config_.reference.used();
  if (lora_.used()) {
    const double replicas = count(config_.inference.count) + 1 + (reference ? 1 : 0);
    return of_model(count(packed_bytes(shape_)) + policy() * (2 * replicas + 1), what);
  }
  const double versions =
      1 + (config_.inference.count > 1 ? 1 : 0) + (evaluates_during_training() ? 1 : 0) + (reference ? 1 : 0);
  const double in_pass = count(packed_in_pass_bytes(shape_)) * (critic_ == CriticKind::separate ? 2 : 1);
  return of_model(count(packed_bytes(shape_)) * versions + in_pass, what);
}

// The base of a model with adapters exists beside its packed form while it is read, before what needs `later` bytes.
// With a separate critic it stays.
MemoryNeed TokenMemory::of_reading(double later) const {
  const bool stays = critic_ == CriticKind::separate || is_kept(model());
  return of_model(lora_.used() ? (stays ? model() : std::max(0.0, model() - later)) : 0,
                  "weights as they are read, beside their packed form");
}

// Its weights in the trainer; of a model whose distributions are compared, the hidden rows of a super-batch as well.
MemoryNeed TokenMemory::of_reference() const {
  double bytes = config_.reference.used() ? policy() : 0;
  if (has_exact_kl()) {
    bytes += kFloat * count(tokens_of_samples(config_.trainer.super_batch) * shape_.hidden);
    if (!lora_.used()) bytes += kFloat * count(shape_.vocabulary * shape_.hidden);
  }
  return {"reference.model", config_.reference.model, "weights of the reference in the trainer", bytes};
}

// Of the policy and its critic, which have them in turn, but for gradients and hidden rows; and the logits with their
// gradients.
MemoryNeed TokenMemory::of_activations() const {
  const MicroBatchChoice choice = micro_batch_of(config_);
  const int64_t tokens = pass_tokens(choice);
  double bytes = count(tokens * activation_bytes(shape_, tokens > choice.recompute_above));
  if (critic_ == CriticKind::separate) bytes += count(tokens * activation_bytes(shape_, /*recompute=*/true)) / 2;
  bytes += logits(std::min(tokens, kLogitRows)) * (has_exact_kl() ? 3 : 2);
  return {"trainer.micro_batch_tokens", setting_text(config_.trainer.micro_batch_tokens),
          "activations of a micro-batch of " + setting_text(tokens) + " tokens", bytes};
}

// What the trainer computes with the weights from before an update.
MemoryNeed TokenMemory::of_start() const {
  const bool reference = config_.reference.used() && !config_.reference.by_scorers();
  const AnswerNeeds needs = needs_of(choice_, config_.algorithm, critic_ != CriticKind::none, reference);
  const int64_t tokens = std::min(std::max(kStartTokens, longest()), tokens_of_samples(config_.trainer.super_batch));
  return {"trainer.super_batch", setting_text(config_.trainer.super_batch),
          "keys and values of passes before an update", needs.any() ? pass(tokens) : 0};
}

// Every inference actor and one evaluation.
MemoryNeed TokenMemory::of_slots() const {
  const GenerationConfig& g = config_.generation;
  const EvaluationConfig& e = config_.evaluation;
  const int64_t prompts = g.prompt_slots * run_->prompt_tokens, answers = g.answer_slots * run_->conversation_tokens();
  const int64_t actors = config_.inference.count;
  const int64_t asked = actors == 0 ? 0 : (prompts_asked() + actors - 1) / actors;
  const double kept = count((actors + 1) * (prompts + answers) * kv_bytes(shape_));
  const double steps = count(actors) * generation_step(asked, asked * answers_asked(config_)) +
                       generation_step(e.episodes, e.episodes * e.answers);
  const bool larger = answers >= prompts;
  return {larger ? "generation.answer_slots" : "generation.prompt_slots",
          setting_text(larger ? g.answer_slots : g.prompt_slots), "keys and values of prompts and answers in progress",
          kept + steps};
}

// Passes of each scorer that computes with the reference; in other runs with one, of evaluations.
MemoryNeed TokenMemory::of_scorers() const {
  const bool by_scorers = config_.reference.by_scorers();
  const int64_t most = std::max(config_.scorers.batch_tokens, longest());
  const double one = pass(std::min(most, prompts_asked() * group_tokens())) + logits(kLogitRows);
  const double passes = (by_scorers ? count(config_.scorers.count) : 0) + 1;
  return {by_scorers ? "scorers.count" : "scorers.batch_tokens",
          setting_text(by_scorers ? config_.scorers.count : config_.scorers.batch_tokens),
          "passes of the reference over answers", config_.reference.used() ? passes * one : 0};
}

// The packed form, the weights as they were read if their memory stays, and the passes.
MemoryNeed TokenMemory::of_reward_model() const {
  const std::string what = "weights of the reward model and its passes over answers";
  if (!config_.reward_model.used() || !missing_reward_model(config_).empty())
    return {"reward_model.path", config_.reward_model.path, what, 0};
  const LmShape shape = reward_model_shape(posix_disk(), config_.reward_model.path);
  const double read = kFloat * count(lm_parameter_count(shape));
  const int64_t tokens = std::min(group_tokens(), run_->prompt_tokens + std::max(kStartTokens, longest()));
  const double packed = count(packed_bytes(shape));
  return {"reward_model.path", config_.reward_model.path, what,
          packed + (is_kept(read) ? read : 0) + count(tokens * (forward_bytes(shape) + kv_bytes(shape)))};
}

// Answers in replay, staged and trained on: ids, log-probabilities, versions and targets of each token, and what each
// group and answer has besides.
MemoryNeed TokenMemory::of_super_batch() const {
  constexpr double kRolloutToken = 16, kStagedToken = 48, kGroup = 4096, kAnswer = 256;
  const int64_t samples = config_.trainer.super_batch, answers = config_.generation.answers;
  const double in_replay = count(static_cast<int64_t>(replay_capacity(config_.replay, static_cast<uint64_t>(samples)) +
                                                      static_cast<uint64_t>(samples)));
  const double rollouts = in_replay * (kRolloutToken * count(longest()) + kAnswer + kGroup / count(answers));
  return {"trainer.super_batch", setting_text(samples), "answers in replay and their training",
          rollouts + 2 * kStagedToken * count(tokens_of_samples(samples))};
}

// The entries of the tokenizer, which are read from JSON.
MemoryNeed TokenMemory::of_tokenizer() const {
  constexpr double kEntry = 600;
  return {"tokenizer.kind", config_.tokenizer.kind, "the tokenizer",
          kEntry * count(run_->tokenizer->vocabulary_size())};
}

std::vector<MemoryNeed> TokenMemory::needs() const {
  std::vector<MemoryNeed> result = {of_activations(), of_start(),        of_slots(),    of_scorers(),
                                    of_super_batch(), of_reward_model(), of_reference()};
  double later = 0;
  for (const MemoryNeed& need : result) later += need.bytes;
  for (MemoryNeed need : {of_learner(), of_packed_weights(), of_reading(later), of_tokenizer()})
    result.push_back(std::move(need));
  std::erase_if(result, [](const MemoryNeed& need) { return need.bytes == 0; });
  return result;
}

MemoryNeed TokenMemory::checkpoint() const {
  return {"checkpoint.every_updates", setting_text(config_.checkpoint.every_updates),
          "a checkpoint that is written while the next update changes weights and moments", 3 * trained()};
}

}  // namespace

std::vector<MemoryNeed> memory_of_answers(const RunConfig& config) { return TokenMemory(config).needs(); }

std::vector<MemoryNeed> possible_memory_of_answers(const RunConfig& config) {
  if (config.deterministic || config.checkpoint.every_updates == 0) return {};
  return {TokenMemory(config).checkpoint()};
}

}  // namespace troupe
