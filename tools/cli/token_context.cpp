#include "tools/cli/token_context.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>

#include <nlohmann/json.hpp>

#include "actors/evaluation_player.h"
#include "models/heads/heads.h"
#include "models/learning/answers/lm_learner.h"
#include "models/learning/update_settings.h"
#include "models/lm/lm_config.h"
#include "models/lm/lm_generator.h"
#include "models/lm/lm_model.h"
#include "models/lm/lm_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/output.h"
#include "runtime/base/rng.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"

namespace troupe {
namespace {

constexpr int64_t kWarmupPrompts = 64;  // held-out prompts of a check
constexpr int64_t kWarmupChecks = 5;    // steps between two checks, until the first right answer; then one

std::shared_ptr<const LmModel> model_of(const RunConfig& config, const TokenRun& tokens) {
  const int64_t positions = tokens.prompt_tokens + tokens.answer_tokens,
                vocabulary = tokens.tokenizer->vocabulary_size();
  auto model = std::make_shared<LmModel>(load_lm_model(config.model, lm_shape_of(config.model, vocabulary, positions)));
  model->tokens = vocabulary;
  return model;
}

AnswerTrainerOptions trainer_options(const RunConfig& config, const TokenRun& tokens) {
  return {.seed = config.seed,
          .temperature = config.generation.temperature,
          .answer_tokens = tokens.answer_tokens,
          .micro_batch_tokens = 0,
          .threads = static_cast<int>(config.trainer.threads)};
}

// Demonstrations as answers, one to each prompt.
std::unique_ptr<AnswerBatch> demonstrations(const TokenRun& run, uint64_t key, int64_t count) {
  auto batch = std::make_unique<AnswerBatch>();
  batch->prompt_offsets = batch->group_offsets = batch->offsets = {0};
  for (int64_t i = 0; i < count; ++i) {
    Rng rng(derive_key(key, "demonstration", static_cast<uint64_t>(i)));
    const Prompt prompt = run.task->draw(rng, Split::train);
    const std::vector<int32_t> ids = run.encode(prompt), answer = run.tokenizer->encode(prompt.demonstration);
    batch->prompts.insert(batch->prompts.end(), ids.begin(), ids.end());
    batch->prompt_offsets.push_back(static_cast<int64_t>(batch->prompts.size()));
    batch->tokens.insert(batch->tokens.end(), answer.begin(), answer.end());
    batch->tokens.push_back(run.end_tokens.front());
    batch->offsets.push_back(static_cast<int64_t>(batch->tokens.size()));
    batch->rewards.push_back(1);
    batch->group_offsets.push_back(i + 1);
  }
  batch->log_probs.assign(batch->tokens.size(), 0.0f);
  return batch;
}

// The share of held-out prompts that the weights answer right. Of some of them once a signal asks to stop.
double pass_at_1(EvaluationPlayer& player, const WeightSnapshot& weights, uint64_t seed, const StopSignals& signals) {
  player.begin(weights, derive_key(seed, "warm-up"), kWarmupPrompts);
  while (!player.complete() && !signals.asked()) player.step();
  return player.summary().success_rate;
}

}  // namespace

void add_tokens(RunContext& context) {
  context.tokens = make_token_run(context.config);
  context.spec.id = context.config.task.name;
  context.spec.reports_success = true;
}

void add_generators(RunContext& context) {
  add_tokens(context);
  const RunConfig& config = context.config;
  const std::shared_ptr<const LmModel> model = model_of(config, *context.tokens);
  context.language_model = model;
  const LmGeneratorOptions options{.prompt_slots = config.generation.prompt_slots,
                                   .prompt_tokens = context.tokens->prompt_tokens,
                                   .answer_slots = config.generation.answer_slots,
                                   .answer_tokens = context.tokens->answer_tokens,
                                   .temperature = config.generation.temperature,
                                   .threads = static_cast<int>(config.inference.threads)};
  context.signature = std::make_shared<const Signature>(lm_signature(*model));
  context.make_generator = [model, options] { return make_lm_generator(*model, options); };
}

std::unique_ptr<Learner> token_learner_of(const RunContext& context) {
  return make_lm_learner(context.config, *context.language_model, trainer_options(context.config, *context.tokens));
}

namespace {

// One step; throws if what it computes is not finite.
void step_on_demonstrations(AnswerTrainer& trainer, const AnswerBatch& batch, double rate) {
  std::vector<int64_t> groups(static_cast<size_t>(batch.groups()));
  std::iota(groups.begin(), groups.end(), 0);
  const std::vector<float> ones(batch.tokens.size(), 1.0f);
  if (!trainer.step(batch, ones, groups, {.rates = {.policy = rate, .value = 0}, .loss = {}}).applied())
    throw NotFinite("the loss or its gradient is not finite");
}

void require_finite(const std::map<std::string, Array>& weights) {
  for (const auto& [name, array] : weights)
    if (array.dtype() == DType::f32 &&
        !std::ranges::all_of(array.view<float>(), [](float x) { return std::isfinite(x); }))
      throw NotFinite("a weight of " + name + " is not finite");
}

// The warm-up diverged after `steps`, or the model had such weights from the start.
[[noreturn]] void refuse_divergence(const RunConfig& config, int64_t steps, const NotFinite& cause) {
  if (steps == 0) throw ConfigError("warmup: the model as it begins cannot be trained: " + std::string(cause.what()));
  throw ConfigError("warmup.policy_lr: " + nlohmann::json(config.warmup.learning_rate).dump() +
                    " makes the warm-up diverge: " + cause.what() + " after " +
                    format_counted(static_cast<uint64_t>(steps), "step") + "; use a smaller rate");
}

// Tells how far the warm-up is: `told` at its start and in intervals, the console after its first step and then every
// ten seconds.
class WarmupProgress {
 public:
  WarmupProgress(const RunConfig& config, const std::function<void(const WarmupUnderWay&)>& told)
      : steps_(static_cast<uint64_t>(config.warmup.steps)), interval_(config.stats.interval), told_(told) {}
  void show(int64_t step, double right) {
    const auto now = std::chrono::steady_clock::now();
    const WarmupUnderWay progress{static_cast<uint64_t>(step), steps_, right > 0 ? right : kUnknown};
    if (now >= next_told_) {
      next_told_ = now + interval_;
      told_(progress);
    }
    if (step == 0 || now < next_printed_) return;
    next_printed_ = now + std::chrono::seconds(10);
    print_line("warm-up: step " + format_count(progress.step) + " of at most " + format_count(steps_) +
               (right > 0 ? ", pass@1 " + format_number(right, 2) : ""));
  }

 private:
  uint64_t steps_;
  std::chrono::milliseconds interval_;
  const std::function<void(const WarmupUnderWay&)>& told_;
  std::chrono::steady_clock::time_point next_told_, next_printed_;
};

std::string stopping_warmup(int signal) {
  return "stopping at " + signal_name(signal) + ": a warm-up is not saved; the same command begins it again\n";
}

}  // namespace

std::optional<WarmupResult> warm_up(const RunContext& context, Learner& learner, StopSignals& signals,
                                    const std::function<void(const WarmupUnderWay&)>& told) {
  const RunConfig& config = context.config;
  if (config.warmup.steps == 0) return WarmupResult{};
  signals.begin(stopping_warmup);
  WarmupProgress progress(config, told);
  progress.show(0, 0);
  const auto begun = std::chrono::steady_clock::now();
  AlgorithmConfig supervised;
  supervised.surrogate = "reinforce";  // with an advantage of 1 for every token: maximum likelihood
  const AlgorithmChoice choice = choose_algorithm(supervised);
  AnswerTrainer trainer(*context.language_model, config.trainer, choice, trainer_options(config, *context.tokens));
  const std::unique_ptr<EvaluationPlayer> player = make_evaluation_player(std::make_shared<RunContext>(context));
  const uint64_t key = derive_key(config.seed, "warm-up");
  std::map<std::string, Array> weights;
  double right = 0;
  int64_t step = 0;
  try {
    while (step < config.warmup.steps) {
      const auto batch =
          demonstrations(*context.tokens, derive_key(key, "step", static_cast<uint64_t>(step)), config.warmup.batch);
      step_on_demonstrations(trainer, *batch, config.warmup.learning_rate);
      ++step;
      if (signals.asked()) return std::nullopt;
      progress.show(step, right);
      if (config.warmup.pass_at_1 <= 0 || (right == 0 && step % kWarmupChecks != 0 && step != config.warmup.steps))
        continue;
      right = pass_at_1(*player, *trainer.weights().snapshot({}), config.seed, signals);
      if (signals.asked()) return std::nullopt;
      if (right >= config.warmup.pass_at_1) break;
    }
    weights = trainer.weights().save();
    require_finite(weights);
  } catch (const NotFinite& cause) {
    refuse_divergence(config, step, cause);
  }
  learner.begin_from(weights);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  const std::string line = "warm-up: " + format_counted(static_cast<uint64_t>(step), "step") +
                           " on demonstrations in " + format_number(seconds, 1) + " s" +
                           (config.warmup.pass_at_1 > 0 ? ", pass@1 " + format_number(right, 2) : "");
  log_info("train", line);
  print_line(line);
  // A deterministic run's checkpoints do not depend on time.
  return WarmupResult{.steps = static_cast<uint64_t>(step),
                      .seconds = config.deterministic ? 0 : seconds,
                      .pass_at_1 = config.warmup.pass_at_1 > 0 ? right : kUnknown};
}

void print_answers(const RunContext& context, const WeightSnapshot& weights, int64_t count) {
  const TokenRun& run = *context.tokens;
  const std::unique_ptr<Generator> generator = context.make_generator();
  generator->load(weights);
  for (const Prompt& prompt : run.task->held_out(derive_key(context.config.seed, "play"), count)) {
    GenerationScheduler scheduler(*generator, run.generation(context.config));
    scheduler.add(
        {.ticket = 0, .prompt = run.encode(prompt), .max_tokens = run.answer_tokens, .keys = {0}, .greedy = true});
    std::vector<Generation> done;
    while (done.empty()) done = scheduler.step(*generator, 0);
    const std::string answer = run.decode(done.front().answers.front().tokens);
    std::cout << printable(prompt.text, std::string::npos) << ' ' << printable(answer, std::string::npos)
              << (run.task->score(prompt, answer).right ? "" : "  (wrong)") << '\n'
              << std::flush;
  }
}

}  // namespace troupe
