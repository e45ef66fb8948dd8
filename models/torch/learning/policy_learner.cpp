#include "models/torch/learning/policy_learner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "algorithms/common/schedule.h"
#include "models/learning/metrics.h"
#include "models/learning/normalizers.h"
#include "models/learning/recurrence.h"
#include "models/torch/learning/device_form.h"
#include "models/torch/learning/host_form.h"
#include "models/torch/learning/policy_stager.h"
#include "models/weights/initial_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

// Each sample is trained with the statistics of observations of the version that acted on it, and a batch is added to
// them after it was trained on. So only the weights change the ratio of probabilities; the first epoch of an update at
// lag 0 begins with ratios of 1. New statistics, and the next log_std of a schedule, are published with the weights.
class PolicyLearner final : public Learner {
 public:
  PolicyLearner(const LearnerConfig& config, const EnvSpec& env, LearnerOptions options);

  std::shared_ptr<const Signature> signature() const override { return replica_.weights.signature(); }
  WeightsPtr snapshot(PolicyVersion version) const override;
  std::shared_ptr<const Stager> stager() const override { return stager_; }
  UpdateReport update(StagedBatch& staged, double progress) override;
  LearnerState save() const override;
  void begin_from(const std::map<std::string, Array>& model) override;
  void load(const LearnerState& state) override;

 private:
  // The data of an epoch.
  struct Epoch {
    const StagedUpdate& batch;
    const Sequences& sequences;
    std::span<const uint8_t> is_trained;
  };
  // The results of the epochs of an update.
  struct Trained {
    double samples = 0;                    // that each epoch trained on, of all ranks
    EpochReport last;                      // of the last epoch
    std::optional<TargetFigures> figures;  // nothing without samples
  };

  SampleScalings scalings_of(const StagedUpdate& batch);
  Trained train(StagedUpdate& batch, const UpdateSettings& settings, UpdateReport& report);
  Prepared prepare_targets(StagedSamples& samples);
  EpochOrder epoch_order(const Epoch& epoch, uint64_t key) const;
  EpochReport run_epoch(const Epoch& epoch, const UpdateSettings& settings, uint64_t index);
  std::vector<StepTotals> count_over_ranks(std::span<const SampleRange> minibatches);
  void merge_kl_over_ranks(LossReport& epoch);
  void schedule_log_std(double progress);
  void adapt_kl(const Trained& trained, bool trained_policy);

  LearnerConfig config_;
  EnvSpec env_;
  AlgorithmChoice choice_;
  Recurrence recurrence_;
  std::shared_ptr<GradientReducer> reducer_;
  mutable Replica replica_;  // draws its first weights when they are first needed; the trainer's thread alone uses it
  std::unique_ptr<UpdateForm> form_;
  std::shared_ptr<const Stager> stager_;
  ScalingHistory scalings_;
  double kl_coef_;
  uint64_t updates_ = 0;
};

std::vector<uint8_t> trained_mask(const StagedSamples& batch) {
  std::vector<uint8_t> result(static_cast<size_t>(batch.count), 0);
  for (const int64_t sample : batch.trained) result[static_cast<size_t>(sample)] = 1;
  return result;
}

// Whether batches are on a device, and updates are computed with tensor operations alone.
bool is_on_device(const Replica& replica, bool device_form) { return !replica.device.device().is_cpu() || device_form; }

std::unique_ptr<UpdateForm> make_form(const LearnerConfig& config, Replica& replica, const AlgorithmChoice& choice,
                                      GradientReducer& reducer, bool device_form) {
  if (is_on_device(replica, device_form)) return std::make_unique<DeviceForm>(config, replica, choice, reducer);
  return std::make_unique<HostForm>(config, replica, choice, reducer);
}

PolicyLearner::PolicyLearner(const LearnerConfig& config, const EnvSpec& env, LearnerOptions options)
    : config_(config),
      env_(env),
      choice_(choose_algorithm(config.algorithm)),
      recurrence_(recurrence_of(config, env)),
      reducer_(options.reducer ? options.reducer : single_rank()),
      replica_(config, env, options.network ? *options.network : define_network(config.model, env),
               find_device(config.trainer.device, "trainer.device"), /*with_gradients=*/true,
               /*own_memory=*/options.device_form),
      form_(make_form(config, replica_, choice_, *reducer_, options.device_form)),
      stager_(make_policy_stager(config, env, replica_, is_on_device(replica_, options.device_form))),
      scalings_(config.max_policy_lag),
      kl_coef_(config.algorithm.kl_coef) {}

WeightsPtr PolicyLearner::snapshot(PolicyVersion version) const {
  replica_.require_weights();
  return replica_.weights.snapshot(version);
}

UpdateReport PolicyLearner::update(StagedBatch& staged, double progress) {
  replica_.require_weights();
  UpdateReport report;
  const UpdateSettings settings = update_settings(config_, updates_, kl_coef_, progress);
  auto& batch = dynamic_cast<StagedUpdate&>(staged);
  const Trained trained = train(batch, settings, report);
  if (batch.observations) absorb_observations(*batch.observations, replica_.weights);
  schedule_log_std(progress);
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

// How the samples of a batch were normalised when the policy acted. The weights are those of version `batch.index`.
SampleScalings PolicyLearner::scalings_of(const StagedUpdate& batch) {
  FeatureScaling newest = replica_.scaling();
  if (newest.mean.empty()) return {};
  scalings_.set(batch.index, std::move(newest));
  return scalings_.of(batch.staged.versions, batch.staged.bootstrap_samples);
}

PolicyLearner::Trained PolicyLearner::train(StagedUpdate& batch, const UpdateSettings& settings, UpdateReport& report) {
  Trained result;
  StagedSamples& samples = batch.staged;
  const SampleScalings scalings = scalings_of(batch);
  if (sum_over_ranks(*reducer_, static_cast<double>(samples.trained.size())) == 0) return result;
  if (batch.observations) batch.observations = merged_over_ranks(*reducer_, *batch.observations);
  form_->begin(batch, scalings);
  Prepared prepared = samples.trained.empty() ? Prepared() : prepare_targets(samples);
  const std::vector<uint8_t> is_trained = trained_mask(samples);
  result.samples = sum_over_ranks(*reducer_, static_cast<double>(count_trained(batch.chunks, is_trained)));
  if (result.samples == 0) return result;
  absorb_returns(samples, replica_.layout.value_head, replica_.weights, *reducer_);
  const Targets targets =
      make_targets(choice_, samples, prepared, value_units(replica_.weights), result.figures.emplace(), *reducer_);
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
  const std::vector<SampleRange> parts = minibatches(order, config_.trainer.minibatches);
  const std::vector<StepTotals> totals = count_over_ranks(parts);
  UpdateSettings own = settings;
  for (size_t i = 0; i < parts.size(); ++i) {
    own.loss.key = derive_key(key, "minibatch", i);
    if (totals[i].all.samples == 0) continue;
    const StepReport step = form_->step(own, parts[i], totals[i], config_.trainer.micro_batch);
    if (!std::isfinite(step.grad_norm)) {
      ++report.skipped;
      continue;
    }
    ++report.steps;
    report.grad_norm_sum += step.grad_norm;
    report.loss.add_step(step.loss);
  }
  merge_kl_over_ranks(report.loss);
  return report;
}

std::vector<StepTotals> PolicyLearner::count_over_ranks(std::span<const SampleRange> minibatches) {
  std::vector<StepTotals> result;
  std::vector<double> sums;
  for (const SampleRange& minibatch : minibatches) {
    const LossTotals own = form_->count(minibatch);
    result.push_back({.own = own, .all = {}});
    sums.insert(sums.end(), {static_cast<double>(own.samples), own.counts.tokens, own.counts.sequences});
  }
  reducer_->sum(sums);
  for (size_t i = 0; i < result.size(); ++i)
    result[i].all = {.samples = static_cast<int64_t>(sums[3 * i]),
                     .counts = {.tokens = sums[3 * i + 1], .sequences = sums[3 * i + 2]}};
  return result;
}

// Makes the measured KL the same on all ranks. It decides on early stopping and on the coefficient of the penalty, in
// which ranks must not differ.
void PolicyLearner::merge_kl_over_ranks(LossReport& epoch) {
  if (reducer_->ranks() == 1) return;
  SurrogateDiagnostics& measured = epoch.diagnostics;
  std::array sums = {measured.kl_k3 * measured.count, measured.count, epoch.kl * epoch.samples, epoch.samples};
  reducer_->sum(sums);
  measured.kl_k3 = sums[1] == 0 ? 0.0 : sums[0] / sums[1];
  epoch.kl = sums[3] == 0 ? 0.0 : sums[2] / sums[3];
}

// The order of samples, of whole sequences, or of chunks by their indices.
EpochOrder PolicyLearner::epoch_order(const Epoch& epoch, uint64_t key) const {
  const Chunks& chunks = epoch.batch.chunks;
  if (epoch.batch.staged.trained.empty()) return {};
  if (chunks.steps > 0) return shuffled(trained_chunks(chunks, epoch.is_trained), key);
  return choice_.whole_sequences ? shuffled(epoch.sequences, key) : shuffled(epoch.batch.staged.trained, key);
}

// Called after the update, with the samples that it trained on. The new coefficient counts from the next update on.
void PolicyLearner::adapt_kl(const Trained& trained, bool trained_policy) {
  const AlgorithmConfig& algorithm = config_.algorithm;
  if (algorithm.kl_controller != "adaptive" || !trained_policy || trained.last.steps == 0) return;
  AdaptiveKl controller(kl_coef_, algorithm.kl_target, algorithm.kl_horizon);
  controller.update(trained.last.loss.kl, trained.samples);
  kl_coef_ = controller.value();
}

LearnerState PolicyLearner::save() const {
  replica_.require_weights();
  LearnerState state;
  state.model = replica_.weights.save();
  form_->optimizer().save(state.optimizer, state.scalars);
  scalings_.save(state.optimizer);
  state.scalars["updates"] = static_cast<double>(updates_);
  if (config_.algorithm.kl_controller == "adaptive") state.scalars["kl_coef"] = kl_coef_;
  return state;
}

void PolicyLearner::begin_from(const std::map<std::string, Array>& model) {
  TROUPE_CHECK(updates_ == 0, updates_);
  check_initial_weights(*signature(), model);
  replica_.load(model);
}

void PolicyLearner::load(const LearnerState& state) {
  check_initial_weights(*signature(), state.model);
  std::map<std::string, Array> moments = state.optimizer;
  ScalingHistory scalings(config_.max_policy_lag);
  scalings.load(moments, replica_.encoder.features(), static_cast<float>(config_.model.observation_clip));
  check_moments(replica_.weights, moments, state.scalars);
  const double updates = saved_count(state.scalars, "updates");
  const double kl_coef = saved_kl_coef(state.scalars, config_.algorithm.kl_coef);

  replica_.load(state.model);
  form_->optimizer().load(moments, state.scalars);
  scalings_ = std::move(scalings);
  updates_ = static_cast<uint64_t>(updates);
  kl_coef_ = kl_coef;
}

}  // namespace

std::unique_ptr<Learner> make_policy_learner(const LearnerConfig& config, const EnvSpec& env, LearnerOptions options) {
  return std::make_unique<PolicyLearner>(config, env, std::move(options));
}

}  // namespace troupe
