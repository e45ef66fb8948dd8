#include "tools/cli/token_context.h"

#include <iostream>

#include "actors/experience/answers/answer_player.h"
#include "actors/experience/answers/shared_token_run.h"
#include "actors/experience/answers/token_micro_batch.h"
#include "actors/experience/kinds.h"
#include "models/learning/answers/answer_learner.h"
#include "models/learning/answers/lm_reference.h"
#include "models/lm/lm_config.h"
#include "models/lm/lm_generator.h"
#include "models/lm/lm_model.h"
#include "models/lm/lm_weights.h"
#include "models/lm/reward_model.h"
#include "runtime/base/errors.h"
#include "runtime/base/output.h"
#include "runtime/base/rng.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"

namespace troupe {
namespace {

std::shared_ptr<const LmModel> model_of(const RunConfig& config, const TokenRun& tokens) {
  const int64_t positions = tokens.prompt_tokens + tokens.conversation_tokens(),
                vocabulary = tokens.tokenizer->vocabulary_size();
  auto model = std::make_shared<LmModel>(load_lm_model(config.model, lm_shape_of(config.model, vocabulary, positions)));
  model->tokens = vocabulary;
  return model;
}

AnswerTrainerOptions trainer_options(const RunConfig& config, const TokenRun& tokens) {
  const MicroBatchChoice micro_batch = micro_batch_of(config);
  return {.seed = config.seed,
          .temperature = config.generation.temperature,
          .answer_tokens = tokens.sampled_tokens(),
          .turn_tokens = tokens.answer_tokens,
          .micro_batch_tokens = micro_batch.tokens,
          .recompute_above = micro_batch.recompute_above,
          .threads = static_cast<int>(config.trainer.threads)};
}

LmGeneratorOptions generator_options(const RunContext& context) {
  const RunConfig& config = context.config;
  return {.prompt_slots = config.generation.prompt_slots,
          .prompt_tokens = context.tokens->prompt_tokens,
          .answer_slots = config.generation.answer_slots,
          .answer_tokens = context.tokens->conversation_tokens(),
          .temperature = config.generation.temperature,
          .threads = static_cast<int>(config.inference.threads)};
}

// The ids of a prompt of the user.
std::vector<int32_t> ids_of(const RunContext& context, const std::string& text) {
  const TokenRun& run = *context.tokens;
  std::vector<int32_t> ids;
  try {
    ids = run.encode({.text = text, .truth = "", .demonstration = ""});
  } catch (const ConfigError& refused) {
    throw ConfigError(std::string("--prompt: ") + refused.what());
  }
  const int64_t most = context.language_model->shape.max_positions - run.answer_tokens;
  if (ids.empty() || static_cast<int64_t>(ids.size()) > most)
    throw ConfigError("--prompt: has " + std::to_string(ids.size()) + " tokens, expected 1 to " + std::to_string(most) +
                      ", because an answer may have " + std::to_string(run.answer_tokens) + " and the model has " +
                      std::to_string(context.language_model->shape.max_positions) + " positions");
  return ids;
}

// The turns before an answer: "ANSWER | MESSAGE | ".
std::string text_of(const std::vector<Turn>& turns) {
  std::string text;
  for (const Turn& turn : turns)
    text += printable(turn.answer, std::string::npos) + " | " + printable(turn.message, std::string::npos) + " | ";
  return text;
}

std::string verdict_on(const Score& score, bool with_reward) {
  if (score.scored == Scored::failed) return "  (no score: " + printable(score.problem, 200) + ')';
  if (score.scored == Scored::none) return "  (no score)";
  if (with_reward) return "  (reward " + format_number(score.reward, 3) + (score.right ? ")" : ", wrong)");
  return score.right ? "" : "  (wrong)";
}

}  // namespace

void add_tokens(RunContext& context) {
  context.tokens = shared_token_run(context.config);
  context.spec.id = context.config.task.name;
  context.spec.reports_success = true;
}

void add_reward_model(RunContext& context) {
  const RewardModelConfig& config = context.config.reward_model;
  if (config.used())
    context.reward_model = std::make_shared<RewardModel>(posix_disk(), config.path, static_cast<int>(config.threads));
}

void add_generators(RunContext& context) {
  add_tokens(context);
  const RunConfig& config = context.config;
  const std::shared_ptr<const LmModel> model = model_of(config, *context.tokens);
  context.language_model = model;
  const LmGeneratorOptions options = generator_options(context);
  context.signature = std::make_shared<const Signature>(lm_signature(*model));
  context.make_generator = [model, options](double temperature) {
    LmGeneratorOptions at = options;
    at.temperature = temperature;
    return make_lm_generator(*model, at);
  };
  context.make_reference = [model, batch_tokens = config.scorers.batch_tokens](double temperature, int64_t threads) {
    return make_lm_reference(
        *model, {.temperature = temperature, .batch_tokens = batch_tokens, .threads = static_cast<int>(threads)});
  };
}

bool has_graded_rewards(const RunConfig& config) { return config.reward_model.used() || !config.task.verifier.empty(); }

std::unique_ptr<Learner> token_learner_of(const RunContext& context) {
  const LmModel& model = *context.language_model;
  const AnswerTrainerOptions options = trainer_options(context.config, *context.tokens);
  std::unique_ptr<Learner> learner = make_answer_learner(context.config, model, options);
  if (model.lora.used() && model.critic != CriticKind::separate) {
    ParallelFor parallel(options.threads);
    model.frozen->release(model, parallel);
  }
  return learner;
}

void print_answers(const RunContext& context, const WeightSnapshot& weights, int64_t count) {
  const TokenRun& run = *context.tokens;
  const std::unique_ptr<Generator> generator = context.make_generator(context.config.generation.temperature);
  const std::shared_ptr<Grader> grader = kind_of(context).make_evaluation_graders(context).at(0);
  generator->load(weights);
  AnswerPlayer player(context.config, run, *generator, grader.get());
  // A score of the task alone is no reward of a run with a reward model.
  const bool with_reward =
      has_graded_rewards(context.config) && (context.reward_model || !context.config.reward_model.used());
  for (const Prompt& prompt : run.task->held_out(derive_key(context.config.seed, "play"), count)) {
    player.ask(prompt, run.encode(prompt), {0}, /*greedy=*/true);
    const PlayedPrompt played = player.finish().at(0);
    const PlayedAnswer& answer = played.answers.at(0);
    std::cout << printable(prompt.text, std::string::npos) << ' ' << text_of(answer.details.earlier)
              << printable(answer.text, std::string::npos) << verdict_on(answer.score, with_reward) << '\n'
              << std::flush;
  }
}

void print_answers_to(const RunContext& context, const WeightSnapshot& weights, const PromptOfUser& prompt) {
  const TokenRun& run = *context.tokens;
  const std::vector<int32_t> ids = ids_of(context, prompt.text);
  LmGeneratorOptions options = generator_options(context);
  options.prompt_tokens = static_cast<int64_t>(ids.size());
  options.answer_tokens = run.answer_tokens;  // one turn: nobody replies
  options.temperature = prompt.temperature.value_or(options.temperature);
  const std::unique_ptr<Generator> generator = make_lm_generator(*context.language_model, options);
  generator->load(weights);
  AnswerPlayer player(context.config, run, *generator, /*grader=*/nullptr);
  for (int64_t i = 0; i < prompt.answers; ++i) {
    const uint64_t key = derive_key(context.config.seed, "play", static_cast<uint64_t>(i));
    player.ask({.text = prompt.text, .truth = "", .demonstration = ""}, ids, {key}, prompt.greedy);
    const PlayedPrompt played = player.finish().at(0);
    const PlayedAnswer& answer = played.answers.at(0);
    std::cout << printable(answer.text, std::string::npos) << (answer.finish == Finish::length ? "  (cut off)" : "")
              << '\n'
              << std::flush;
  }
}

}  // namespace troupe
