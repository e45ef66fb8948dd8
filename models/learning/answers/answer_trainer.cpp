#include "models/learning/answers/answer_trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "models/lm/lm_weights.h"
#include "runtime/base/rng.h"

namespace troupe {

constexpr int64_t kLogitRows = 128;  // that exist at once

namespace {

// With an advantage of 1 for every token: maximum likelihood.
AlgorithmChoice likelihood() {
  AlgorithmConfig config;
  config.surrogate = "reinforce";
  return choose_algorithm(config);
}

}  // namespace

AnswerTrainer::AnswerTrainer(const LmModel& model, const TrainerConfig& trainer, const AlgorithmChoice& choice,
                             const AnswerTrainerOptions& options)
    : model_(model),
      shape_(model.shape),
      options_(options),
      weights_(lm_signature(model)),
      optimizer_(trainer, weights_),
      gradients_(weights_.trained().size()),
      parallel_(options.threads),
      decoder_(model.shape, parallel_),
      token_log_probs_(decoder_, parallel_, kLogitRows, model.tokens),
      loss_(choice, static_cast<double>(options.answer_tokens)),
      likelihood_(likelihood(), static_cast<double>(options.answer_tokens)) {
  begin_lm_weights(model, derive_key(options.seed, "model"), weights_);
  decoder_.load(decoder_weights(model_, weights_));
}

void AnswerTrainer::use_weights() {
  const DecoderWeights weights = decoder_weights(model_, weights_);
  model_.lora.used() ? decoder_.load_adapters(weights) : decoder_.load(weights);
}

void AnswerTrainer::load_weights(const std::map<std::string, Array>& model) {
  weights_.load(model);
  use_weights();
}

namespace {

// The groups whose answers add to the gradient: a group whose answers were all scored alike has no advantages, and
// is left out. Its tokens still divide the loss; means in the report are over the groups that are used. At least one
// group is used, and each that holds a number that is not finite, so that the step is found to be invalid.
std::vector<int64_t> groups_with_gradient(const AnswerBatch& batch, std::span<const float> advantages,
                                          std::span<const int64_t> groups, const LossSettings& settings) {
  std::vector<int64_t> result;
  for (const int64_t g : groups) {
    const auto first = static_cast<size_t>(batch.first_token(g));
    const size_t end = first + static_cast<size_t>(batch.answer_tokens(g));
    bool used = settings.entropy_coef != 0.0 || settings.kl_coef != 0.0;
    for (size_t t = first; t < end && !used; ++t) used = advantages[t] != 0.0f || !std::isfinite(batch.log_probs[t]);
    if (used) result.push_back(g);
  }
  if (result.empty()) result.push_back(groups.front());
  return result;
}

}  // namespace

size_t AnswerTrainer::begin_step(const AnswerBatch& batch, std::span<const float> advantages,
                                 std::span<const int64_t> groups, const UpdateSettings& settings) {
  step_ = {.batch = &batch, .advantages = advantages, .settings = &settings, .of = &loss_};
  for (const int64_t g : groups)
    step_.totals +=
        {.tokens = static_cast<double>(batch.answer_tokens(g)), .sequences = static_cast<double>(batch.answers_of(g))};
  std::ranges::fill(gradients_, 0.0f);
  const std::vector<int64_t> used = groups_with_gradient(batch, advantages, groups, settings.loss);
  step_.parts = group_micro_batches(batch, used, options_.micro_batch_tokens);
  return step_.parts.size();
}

void AnswerTrainer::backward(size_t part) { step_.loss.merge(accumulate(step_.parts[part])); }

StepReport AnswerTrainer::apply() {
  // A loss that is not finite must not change the weights, even if all gradients are.
  if (!std::isfinite(step_.loss.loss)) gradients_.front() = std::numeric_limits<float>::quiet_NaN();
  const StepReport report = {step_.loss,
                             optimizer_.step(gradients_, step_.settings->rates, step_.settings->loss.train_policy)};
  if (report.applied()) use_weights();
  return report;
}

StepReport AnswerTrainer::imitate(const AnswerBatch& demonstrations, double learning_rate) {
  std::vector<int64_t> groups(static_cast<size_t>(demonstrations.groups()));
  std::iota(groups.begin(), groups.end(), 0);
  const std::vector<float> ones(demonstrations.tokens.size(), 1.0f);
  const UpdateSettings settings{.rates = {.policy = learning_rate, .value = 0}, .loss = {}};
  begin_step(demonstrations, ones, groups, settings);
  step_.of = &likelihood_;
  return finish_step();
}

StepReport AnswerTrainer::step(const AnswerBatch& batch, std::span<const float> advantages,
                               std::span<const int64_t> groups, const UpdateSettings& settings) {
  begin_step(batch, advantages, groups, settings);
  return finish_step();
}

StepReport AnswerTrainer::finish_step() {
  for (size_t part = 0; part < step_.parts.size(); ++part) backward(part);
  return apply();
}

LossReport AnswerTrainer::accumulate(std::span<const int64_t> groups) {
  const AnswerBatch& batch = *step_.batch;
  const PackedAnswers packed = pack_answers(batch, groups);
  const size_t count = packed.rows.size();
  for (auto* buffer : {&log_probs_, &entropy_, &d_log_probs_, &d_entropy_, &behaviour_, &advantages_})
    buffer->resize(count);
  for (size_t t = 0; t < count; ++t) {
    const auto place = static_cast<size_t>(packed.places[t]);
    behaviour_[t] = batch.log_probs[place];
    advantages_[t] = step_.advantages[place];
  }
  const auto inputs = static_cast<int64_t>(packed.ids.size());
  hidden_.resize(inputs * shape_.hidden);
  d_hidden_.resize(inputs * shape_.hidden);
  decoder_.forward_training(packed.inputs(), activations_, hidden_.span());
  const ChosenTokens chosen{packed.rows, packed.labels, options_.temperature};
  token_log_probs_.forward(hidden_.span(), chosen, log_probs_, entropy_);
  const LossReport report = step_.of->compute({.log_probs = log_probs_,
                                               .entropy = entropy_,
                                               .old_log_probs = behaviour_,
                                               .behaviour = behaviour_,
                                               .advantages = advantages_,
                                               .rollout_weights = {},
                                               .kept = {},
                                               .offsets = packed.offsets},
                                              step_.totals, step_.settings->loss, {d_log_probs_, d_entropy_});
  const DecoderGradients gradients = decoder_gradients(model_, weights_, gradients_);
  token_log_probs_.backward(hidden_.span(), chosen, d_log_probs_, d_entropy_, d_hidden_.span(), gradients);
  decoder_.backward(packed.inputs(), activations_, d_hidden_.span(), gradients);
  return report;
}

}  // namespace troupe
