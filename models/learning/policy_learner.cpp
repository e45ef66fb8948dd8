#include "models/learning/policy_learner.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "algorithms/common/schedule.h"
#include "models/learning/device/device_form.h"
#include "models/learning/host_form.h"
#include "models/learning/metrics.h"
#include "models/learning/normalizers.h"
#include "models/recurrence.h"
#include "models/weights/initial_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

// Observation statistics take in a batch before it is trained on. So what is published is exactly what was trained:
// weights and normaliser together. The stored log-probabilities stay those of the policy that acted, so a moved
// normaliser counts as part of the importance ratio, like moved weights.
class PolicyLearner final : public Learner {
 public:
  PolicyLearner(const LearnerConfig& config, const EnvSpec& env, LearnerOptions options);

  std::shared_ptr<const Signature> signature() const override { return replica_.weights.signature(); }
  WeightsPtr snapshot(PolicyVersion version) const override { return replica_.weights.snapshot(version); }
  std::unique_ptr<StagedBatch> stage(const SuperBatch& batch) const override;
  UpdateReport update(StagedBatch& staged, double progress) override;
  LearnerState save() const override;
  void begin_from(const std::map<std::string, Array>& model) override;
  void load(const LearnerState& state) override;

 private:
  // What an epoch trains on.
  struct Epoch {
    const StagedUpdate& batch;
    const Sequences& sequences;
    std::span<const uint8_t> is_trained;
  };
  // What the epochs of an update did.
  struct Trained {
    int64_t samples = 0;                   // that each epoch trained on
    EpochReport last;                      // of the last epoch
    std::optional<TargetFigures> figures;  // nothing without samples
  };

  Trained train(StagedUpdate& batch, const UpdateSettings& settings, UpdateReport& report);
  Prepared prepare_targets(StagedSamples& samples);
  EpochOrder epoch_order(const Epoch& epoch, uint64_t key) const;
  EpochReport run_epoch(const Epoch& epoch, const UpdateSettings& settings, uint64_t index);
  void schedule_log_std(double progress);
  void adapt_kl(const Trained& trained, bool trained_policy);

  LearnerConfig config_;
  EnvSpec env_;
  AlgorithmChoice choice_;
  Recurrence recurrence_;
  Replica replica_;
  std::unique_ptr<UpdateForm> form_;
  double kl_coef_;
  uint64_t updates_ = 0;
};

std::vector<uint8_t> trained_mask(const StagedSamples& batch) {
  std::vector<uint8_t> result(static_cast<size_t>(batch.count), 0);
  for (const int64_t sample : batch.trained) result[static_cast<size_t>(sample)] = 1;
  return result;
}

std::unique_ptr<UpdateForm> make_form(const LearnerConfig& config, Replica& replica, const AlgorithmChoice& choice,
                                      LearnerOptions options) {
  if (replica.device.device().is_cpu() && !options.device_form)
    return std::make_unique<HostForm>(config, replica, choice, std::move(options.reducer));
  return std::make_unique<DeviceForm>(config, replica, choice, std::move(options.reducer));
}

PolicyLearner::PolicyLearner(const LearnerConfig& config, const EnvSpec& env, LearnerOptions options)
    : config_(config),
      env_(env),
      choice_(choose_algorithm(config.algorithm)),
      recurrence_(recurrence_of(config, env)),
      replica_(config, env, find_device(config.trainer.device, "trainer.device"), /*with_gradients=*/true,
               /*own_memory=*/options.device_form),
      form_(make_form(config, replica_, choice_, std::move(options))),
      kl_coef_(config.algorithm.kl_coef) {}

std::unique_ptr<StagedBatch> PolicyLearner::stage(const SuperBatch& batch) const {
  auto result = std::make_unique<StagedUpdate>();
  result->index = batch.index;
  const bool whole_columns = choice_.columns || recurrence_.state_size > 0;
  result->staged = stage_samples(batch, env_, replica_.encoder, whole_columns, rollout_extras(config_.algorithm));
  result->chunks = stage_chunks(batch, result->staged, recurrence_);
  result->samples = result->staged.trained.size();
  form_->stage(*result);
  return result;
}

UpdateReport PolicyLearner::update(StagedBatch& staged, double progress) {
  UpdateReport report;
  const UpdateSettings settings = update_settings(config_, updates_, kl_coef_, progress);
  schedule_log_std(progress);
  const Trained trained = train(dynamic_cast<StagedUpdate&>(staged), settings, report);
  ++updates_;
  report.metrics = metrics_of({.choice = choice_,
                               .settings = settings,
                               .epoch = trained.last,
                               .targets = trained.figures,
                               .skipped = report.skipped,
                               .log_std = replica_.log_std(),
                               .penalizes_kl = config_.algorithm.kl_coef != 0.0});
  adapt_kl(trained, settings.loss.train_policy);
  return report;
}

PolicyLearner::Trained PolicyLearner::train(StagedUpdate& batch, const UpdateSettings& settings, UpdateReport& report) {
  Trained result;
  StagedSamples& samples = batch.staged;
  if (samples.trained.empty()) return result;
  form_->begin(batch);
  Prepared prepared = prepare_targets(samples);
  const std::vector<uint8_t> is_trained = trained_mask(samples);
  result.samples = count_trained(batch.chunks, is_trained);
  if (result.samples == 0) return result;
  absorb_returns(samples, replica_.weights);
  const Targets targets =
      make_targets(choice_, samples, prepared, value_units(replica_.weights), result.figures.emplace());
  const Training training = {targets, is_trained};
  form_->begin_steps(training);
  const Epoch every = {batch, prepared.sequences, is_trained};
  for (int64_t epoch = 0; epoch < config_.trainer.epochs; ++epoch) {
    result.last = run_epoch(every, settings, static_cast<uint64_t>(epoch));
    report.steps += result.last.steps;
    report.skipped += result.last.skipped;
    ++report.epochs;
    const double target_kl = config_.algorithm.target_kl;
    if (target_kl > 0.0 && result.last.loss.diagnostics.kl_k3 > target_kl) break;
  }
  form_->end();
  return result;
}

void PolicyLearner::schedule_log_std(double progress) {
  if (!replica_.head.continuous() || config_.model.log_std != "scheduled") return;
  const double value = linear(config_.model.log_std_start, config_.model.log_std_end, progress);
  std::ranges::fill(replica_.weights.floats(kLogStd), static_cast<float>(value));
}

Prepared PolicyLearner::prepare_targets(StagedSamples& samples) {
  if (!choice_.start) return prepare(choice_, config_.algorithm, replica_.head, {}, {}, samples);
  const CurrentNetwork network = form_->current_network();
  Start start = evaluate_start(samples, network, replica_.head.decisions(), needs_probabilities(choice_));
  return prepare(choice_, config_.algorithm, replica_.head, network, std::move(start), samples);
}

EpochReport PolicyLearner::run_epoch(const Epoch& epoch, const UpdateSettings& settings, uint64_t index) {
  EpochReport report;
  const uint64_t key = derive_key(derive_key(config_.seed, "shuffle"), "epoch", updates_, index);
  const EpochOrder order = epoch_order(epoch, key);
  UpdateSettings own = settings;
  uint64_t number = 0;
  for (const SampleRange& minibatch : minibatches(order, config_.trainer.minibatches)) {
    own.loss.key = derive_key(key, "minibatch", number++);
    if (minibatch.size() == 0) continue;
    const StepReport step = form_->step(own, minibatch, config_.trainer.micro_batch);
    if (!std::isfinite(step.grad_norm)) {
      ++report.skipped;
      continue;
    }
    ++report.steps;
    report.grad_norm_sum += step.grad_norm;
    report.loss.add_step(step.loss);
  }
  return report;
}

// Of samples, of whole sequences, or of chunks by their indices.
EpochOrder PolicyLearner::epoch_order(const Epoch& epoch, uint64_t key) const {
  const Chunks& chunks = epoch.batch.chunks;
  if (chunks.steps > 0) return shuffled(trained_chunks(chunks, epoch.is_trained), key);
  return choice_.whole_sequences ? shuffled(epoch.sequences, key) : shuffled(epoch.batch.staged.trained, key);
}

// After the update, by the samples it trained on: its own penalty was weighted with the coefficient from before it.
void PolicyLearner::adapt_kl(const Trained& trained, bool trained_policy) {
  const AlgorithmConfig& algorithm = config_.algorithm;
  if (algorithm.kl_controller != "adaptive" || !trained_policy || trained.last.steps == 0) return;
  AdaptiveKl controller(kl_coef_, algorithm.kl_target, algorithm.kl_horizon);
  controller.update(trained.last.loss.kl, static_cast<double>(trained.samples));
  kl_coef_ = controller.value();
}

LearnerState PolicyLearner::save() const {
  LearnerState state;
  state.model = replica_.weights.save();
  form_->save(state.optimizer, state.scalars);
  state.scalars["updates"] = static_cast<double>(updates_);
  if (config_.algorithm.kl_controller == "adaptive") state.scalars["kl_coef"] = kl_coef_;
  return state;
}

void PolicyLearner::begin_from(const std::map<std::string, Array>& model) {
  TROUPE_CHECK(updates_ == 0, updates_);
  check_initial_weights(*signature(), model);
  replica_.weights.load(model);
  replica_.device.upload();
}

void PolicyLearner::load(const LearnerState& state) {
  WeightBlock candidate(*signature());
  candidate.load(state.model);
  check_buffers(candidate);
  check_moments(replica_.weights, state.optimizer, state.scalars);
  const double updates = saved_count(state.scalars, "updates");

  replica_.weights.load(state.model);
  form_->load(state.optimizer, state.scalars);
  updates_ = static_cast<uint64_t>(updates);
  const auto kl_coef = state.scalars.find("kl_coef");
  kl_coef_ = kl_coef == state.scalars.end() ? config_.algorithm.kl_coef : kl_coef->second;
  replica_.device.upload();
}

}  // namespace

std::unique_ptr<Learner> make_policy_learner(const LearnerConfig& config, const EnvSpec& env, LearnerOptions options) {
  return std::make_unique<PolicyLearner>(config, env, std::move(options));
}

}  // namespace troupe
