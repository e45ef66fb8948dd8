#include "models/learning/answers/answer_trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "models/lm/lm_weights.h"
#include "runtime/base/rng.h"

namespace troupe {

constexpr int64_t kLogitRows = 128;     // that exist at once
constexpr int64_t kStartTokens = 1024;  // of one pass without gradients

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
      value_loss_(choice.value_loss),
      weights_(lm_signature(model)),
      optimizer_(trainer, weights_, model.critic == CriticKind::separate ? ClipNorm::by_group : ClipNorm::joint),
      gradients_(weights_.trained().size()),
      parallel_(options.threads),
      decoder_(model.shape, parallel_),
      critic_(model_, weights_, parallel_),
      token_log_probs_(decoder_, parallel_, kLogitRows, model.tokens),
      loss_(choice, static_cast<double>(options.answer_tokens)),
      likelihood_(likelihood(), static_cast<double>(options.answer_tokens)) {
  begin_lm_weights(model, derive_key(options.seed, "model"), weights_);
  decoder_.load(decoder_weights(model_, weights_));
  critic_.use_weights();
}

void AnswerTrainer::use_weights() {
  const DecoderWeights weights = decoder_weights(model_, weights_);
  model_.lora.used() ? decoder_.load_adapters(weights) : decoder_.load(weights);
  critic_.use_weights();
}

void AnswerTrainer::load_weights(const std::map<std::string, Array>& model) {
  weights_.load(model);
  use_weights();
}

void AnswerTrainer::begin_critic() {
  troupe::begin_critic(model_, weights_);
  critic_.use_weights();
}

AnswerStart AnswerTrainer::start(const AnswerBatch& batch, const AnswerNeeds& needs) {
  AnswerStart result;
  if (!needs.any()) return result;
  const size_t tokens = batch.tokens.size();
  result.log_probs.resize(needs.policy ? tokens : 0);
  result.sum_pi_squared.resize(needs.squared ? tokens : 0);
  result.values.resize(needs.values ? tokens : 0);
  result.final_values.resize(needs.final_values ? static_cast<size_t>(batch.answers()) : 0);
  std::vector<int64_t> groups(static_cast<size_t>(batch.groups()));
  std::iota(groups.begin(), groups.end(), 0);
  for (const std::vector<int64_t>& part : group_micro_batches(batch, groups, kStartTokens))
    add_start(batch, part, needs, result);
  return result;
}

namespace {

// to[places[i]] = from[i], unless `to` is empty.
void scatter(std::span<const float> from, std::span<const int64_t> places, std::span<float> to) {
  if (to.empty()) return;
  for (size_t i = 0; i < places.size(); ++i) to[static_cast<size_t>(places[i])] = from[i];
}

void gather(std::span<const float> from, std::span<const int64_t> places, std::vector<float>& to) {
  to.clear();
  for (const int64_t place : places) to.push_back(from[static_cast<size_t>(place)]);
}

}  // namespace

void AnswerTrainer::add_start(const AnswerBatch& batch, std::span<const int64_t> groups, const AnswerNeeds& needs,
                              AnswerStart& result) {
  const PackedAnswers packed = pack_answers(batch, groups, needs.final_values);
  const auto inputs = static_cast<int64_t>(packed.ids.size());
  const size_t count = packed.rows.size();
  if (!store_ || store_->layers.front().cells() < inputs) store_.emplace(shape_, inputs);
  if (needs.policy || !critic_.separate()) {
    hidden_.resize(inputs * shape_.hidden);
    decoder_.forward(packed.inputs(), *store_, hidden_.span());
  }
  if (needs.policy) {
    part_.log_probs.resize(count);
    part_.squared.resize(needs.squared ? count : 0);
    token_log_probs_.forward(hidden_.span(), {packed.rows, packed.labels, options_.temperature}, part_.log_probs, {},
                             part_.squared);
    scatter(part_.log_probs, packed.places, result.log_probs);
    scatter(part_.squared, packed.places, result.sum_pi_squared);
  }
  if (!needs.values) return;
  const std::span<const float> hidden = critic_.hidden_rows(packed.inputs(), hidden_.span(), *store_);
  part_.values.resize(count);
  critic_.values(hidden, packed.rows, part_.values);
  scatter(part_.values, packed.places, result.values);
  part_.values.resize(packed.last_rows.size());
  critic_.values(hidden, packed.last_rows, part_.values);
  scatter(part_.values, packed.answers, result.final_values);
}

namespace {

// The groups whose answers add to the gradient: without a critic, a group whose answers were all scored alike has no
// advantages, and is left out. Its tokens still divide the loss; means in the report are over the groups that are used.
// At least one group is used, and each that holds a number that is not finite, so that the step is found to be invalid.
std::vector<int64_t> groups_with_gradient(const AnswerBatch& batch, const AnswerTargets& targets,
                                          std::span<const int64_t> groups, const LossSettings& settings) {
  if (!targets.values.empty()) return {groups.begin(), groups.end()};
  const std::vector<float>& advantages = targets.advantages;
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

size_t AnswerTrainer::begin_step(const AnswerBatch& batch, const AnswerTargets& targets,
                                 std::span<const int64_t> groups, const UpdateSettings& settings) {
  step_ = {.batch = &batch, .targets = &targets, .settings = &settings, .of = &loss_};
  for (const int64_t g : groups)
    step_.totals +=
        {.tokens = static_cast<double>(batch.answer_tokens(g)), .sequences = static_cast<double>(batch.answers_of(g))};
  std::ranges::fill(gradients_, 0.0f);
  const std::vector<int64_t> used = groups_with_gradient(batch, targets, groups, settings.loss);
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
  AnswerTargets ones;
  ones.advantages.assign(demonstrations.tokens.size(), 1.0f);
  const UpdateSettings settings{.rates = {.policy = learning_rate, .value = 0}, .loss = {}};
  begin_step(demonstrations, ones, groups, settings);
  step_.of = &likelihood_;
  return finish_step();
}

StepReport AnswerTrainer::step(const AnswerBatch& batch, const AnswerTargets& targets, std::span<const int64_t> groups,
                               const UpdateSettings& settings) {
  begin_step(batch, targets, groups, settings);
  return finish_step();
}

StepReport AnswerTrainer::finish_step() {
  for (size_t part = 0; part < step_.parts.size(); ++part) backward(part);
  return apply();
}

LossReport AnswerTrainer::accumulate(std::span<const int64_t> groups) {
  const PackedAnswers packed = pack_answers(*step_.batch, groups);
  const size_t count = packed.rows.size();
  for (auto* buffer : {&part_.log_probs, &part_.entropy, &part_.d_log_probs, &part_.d_entropy}) buffer->resize(count);
  gather(step_.batch->log_probs, packed.places, part_.behaviour);
  gather(step_.targets->advantages, packed.places, part_.advantages);
  const auto inputs = static_cast<int64_t>(packed.ids.size());
  hidden_.resize(inputs * shape_.hidden);
  d_hidden_.resize(inputs * shape_.hidden);
  decoder_.forward_training(packed.inputs(), activations_, hidden_.span());
  const ChosenTokens chosen{packed.rows, packed.labels, options_.temperature};
  token_log_probs_.forward(hidden_.span(), chosen, part_.log_probs, part_.entropy);
  const LossSettings& settings = step_.settings->loss;
  LossReport report = step_.of->compute({.log_probs = part_.log_probs,
                                         .entropy = part_.entropy,
                                         .old_log_probs = part_.behaviour,
                                         .behaviour = part_.behaviour,
                                         .advantages = part_.advantages,
                                         .rollout_weights = {},
                                         .kept = {},
                                         .offsets = packed.offsets},
                                        step_.totals, settings, {part_.d_log_probs, part_.d_entropy});
  const bool values = !step_.targets->values.empty(), shared = values && !critic_.separate();
  const DecoderGradients gradients = decoder_gradients(model_, weights_, gradients_);
  const std::span<float> d_hidden = settings.train_policy ? d_hidden_.span() : std::span<float>();
  if (settings.train_policy)
    token_log_probs_.backward(hidden_.span(), chosen, part_.d_log_probs, part_.d_entropy, d_hidden, gradients);
  if (shared) add_value_loss(packed, d_hidden, report);
  if (settings.train_policy) decoder_.backward(packed.inputs(), activations_, d_hidden, gradients);
  if (values && !shared) add_value_loss(packed, {}, report);
  return report;
}

// The mean over the tokens of the minibatch.
void AnswerTrainer::add_value_loss(const PackedAnswers& packed, std::span<float> d_hidden, LossReport& report) {
  const size_t count = packed.rows.size();
  for (auto* buffer : {&part_.values, &part_.value_loss, &part_.d_values}) buffer->resize(count);
  gather(step_.targets->values, packed.places, part_.old_values);
  gather(step_.targets->returns, packed.places, part_.returns);
  const LmBatch inputs = packed.inputs();
  const std::span<const float> hidden = critic_.hidden_rows(inputs, hidden_.span(), activations_);
  critic_.values(hidden, packed.rows, part_.values);
  report.value_clip_fraction =
      value_loss(part_.values, part_.old_values, part_.returns, {}, value_loss_, part_.value_loss, part_.d_values);
  report.value_loss = std::accumulate(part_.value_loss.begin(), part_.value_loss.end(), 0.0) / report.samples;
  report.loss += options_.value_coef * report.value_loss;
  const auto weight = static_cast<float>(options_.value_coef / step_.totals.tokens);
  for (float& gradient : part_.d_values) gradient *= weight;
  critic_.backward(inputs, hidden, packed.rows, part_.d_values, activations_, d_hidden, gradients_);
}

}  // namespace troupe
