#include "models/torch/learning/network_learner.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "algorithms/common/schedule.h"
#include "models/learning/normalizers.h"
#include "models/learning/update_learner.h"
#include "models/torch/learning/device_form.h"
#include "models/torch/learning/host_form.h"
#include "models/torch/learning/policy_stager.h"

namespace troupe {

namespace {

// Each sample is trained with the statistics of observations of the version that acted on it, and a batch is added to
// them after it was trained on. So only the weights change the ratio of probabilities; the first epoch of an update at
// lag 0 begins with ratios of 1. New statistics, and the next log_std of a schedule, are published with the weights.
class NetworkObjective final : public Objective {
 public:
  NetworkObjective(const LearnerConfig& config, const EnvSpec& env, const LearnerOptions& options);

  const AlgorithmChoice& choice() const override { return choice_; }
  void require_weights() override { replica_.require_weights(); }
  const WeightBlock& weights() const override { return replica_.weights; }
  void load_weights(const std::map<std::string, Array>& model) override { replica_.load(model); }
  OptimizerState& optimizer() override { return form_->optimizer(); }
  std::shared_ptr<const Stager> stager() const override { return stager_; }
  std::span<const float> log_std() const override { return replica_.log_std(); }
  bool has_critic() const override { return true; }
  void save(std::map<std::string, Array>& state) const override { scalings_.save(state); }
  std::function<void()> read(std::map<std::string, Array>& state) override;

  EpochInput begin(StagedBatch& staged) override;
  size_t begin_epoch(uint64_t key) override;
  std::optional<size_t> begin_step(size_t minibatch, const UpdateSettings& settings) override;
  void backward(size_t part, StageClock& clock) override { form_->backward(part, clock); }
  StepReport apply() override { return form_->apply(); }
  void merge_kl_over_ranks(LossReport& epoch) override;
  void end(double progress) override;

 private:
  // The batch under way. The targets and all that refers to them are empty without samples to train on.
  struct Batch {
    StagedUpdate& staged;
    Prepared prepared = {};
    std::vector<uint8_t> is_trained = {};
    std::optional<Targets> targets = {};
    std::optional<Training> training = {};
    EpochOrder order = {};  // of the epoch
    std::vector<SampleRange> minibatches = {};
    std::vector<StepTotals> totals = {};  // by minibatch
  };

  SampleScalings scalings_of(const StagedUpdate& batch);
  EpochInput begin_training(Batch& batch);
  Prepared prepare_targets(StagedSamples& samples);
  EpochOrder epoch_order(uint64_t key) const;
  std::vector<StepTotals> count_over_ranks(std::span<const SampleRange> minibatches);
  void schedule_log_std(double progress);

  LearnerConfig config_;
  AlgorithmChoice choice_;
  std::shared_ptr<GradientReducer> reducer_;
  Replica replica_;
  std::unique_ptr<UpdateForm> form_;
  std::shared_ptr<const Stager> stager_;
  ScalingHistory scalings_;
  std::optional<Batch> batch_;
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

NetworkObjective::NetworkObjective(const LearnerConfig& config, const EnvSpec& env, const LearnerOptions& options)
    : config_(config),
      choice_(choose_algorithm(config.algorithm)),
      reducer_(options.reducer ? options.reducer : single_rank()),
      replica_(config, env, options.network ? *options.network : define_network(config.model, env),
               find_device(config.trainer.device, "trainer.device"), /*with_gradients=*/true,
               /*own_memory=*/options.device_form),
      form_(make_form(config, replica_, choice_, *reducer_, options.device_form)),
      stager_(make_policy_stager(config, env, replica_, is_on_device(replica_, options.device_form))),
      scalings_(config.max_policy_lag) {}

// How the samples of a batch were normalised when the policy acted. The weights are those of version `batch.index`.
SampleScalings NetworkObjective::scalings_of(const StagedUpdate& batch) {
  FeatureScaling newest = replica_.scaling();
  if (newest.mean.empty()) return {};
  scalings_.set(batch.index, std::move(newest));
  return scalings_.of(batch.staged.versions, batch.staged.bootstrap_samples);
}

EpochInput NetworkObjective::begin(StagedBatch& staged) {
  batch_.emplace(Batch{dynamic_cast<StagedUpdate&>(staged)});
  return begin_training(*batch_);
}

EpochInput NetworkObjective::begin_training(Batch& batch) {
  StagedUpdate& staged = batch.staged;
  StagedSamples& samples = staged.staged;
  const SampleScalings scalings = scalings_of(staged);
  if (sum_over_ranks(*reducer_, static_cast<double>(samples.trained.size())) == 0) return {};
  if (staged.observations) staged.observations = merged_over_ranks(*reducer_, *staged.observations);
  form_->begin(staged, scalings);
  if (!samples.trained.empty()) batch.prepared = prepare_targets(samples);
  batch.is_trained = trained_mask(samples);
  EpochInput result;
  result.samples = sum_over_ranks(*reducer_, static_cast<double>(count_trained(staged.chunks, batch.is_trained)));
  if (result.samples == 0) return {};
  absorb_returns(samples, replica_.layout.value_head, replica_.weights, *reducer_);
  batch.targets = make_targets(choice_, samples, batch.prepared, value_units(replica_.weights),
                               result.figures.emplace(), *reducer_);
  batch.training.emplace(Training{*batch.targets, batch.is_trained});
  form_->begin_steps(*batch.training);
  return result;
}

size_t NetworkObjective::begin_epoch(uint64_t key) {
  batch_->order = epoch_order(key);
  batch_->minibatches = minibatches(batch_->order, config_.trainer.minibatches);
  batch_->totals = count_over_ranks(batch_->minibatches);
  return batch_->minibatches.size();
}

std::optional<size_t> NetworkObjective::begin_step(size_t minibatch, const UpdateSettings& settings) {
  const StepTotals& totals = batch_->totals[minibatch];
  if (totals.all.samples == 0) return std::nullopt;
  return form_->begin_step(settings, batch_->minibatches[minibatch], totals, config_.trainer.micro_batch);
}

void NetworkObjective::end(double progress) {
  if (batch_->training) form_->end();
  if (batch_->staged.observations) absorb_observations(*batch_->staged.observations, replica_.weights);
  schedule_log_std(progress);
  batch_.reset();
}

void NetworkObjective::schedule_log_std(double progress) {
  if (!replica_.head.continuous() || config_.model.log_std != "scheduled") return;
  const double value = linear(config_.model.log_std_start, config_.model.log_std_end, progress);
  std::ranges::fill(replica_.weights.floats(kLogStd), static_cast<float>(value));
}

Prepared NetworkObjective::prepare_targets(StagedSamples& samples) {
  if (!choice_.start) return prepare(choice_, config_.algorithm, replica_.head, {}, {}, samples);
  const CurrentNetwork network = form_->current_network();
  Start start = evaluate_start(samples, network, replica_.head.decisions(), needs_probabilities(choice_));
  return prepare(choice_, config_.algorithm, replica_.head, network, std::move(start), samples);
}

std::vector<StepTotals> NetworkObjective::count_over_ranks(std::span<const SampleRange> minibatches) {
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

void NetworkObjective::merge_kl_over_ranks(LossReport& epoch) {
  if (reducer_->ranks() == 1) return;
  SurrogateDiagnostics& measured = epoch.diagnostics;
  std::array sums = {measured.kl_k3 * measured.count, measured.count, epoch.kl * epoch.count, epoch.count};
  reducer_->sum(sums);
  measured.kl_k3 = sums[1] == 0 ? 0.0 : sums[0] / sums[1];
  epoch.kl_count = sums[1];
  epoch.kl = sums[3] == 0 ? 0.0 : sums[2] / sums[3];
}

// The order of samples, of whole sequences, or of chunks by their indices.
EpochOrder NetworkObjective::epoch_order(uint64_t key) const {
  const StagedUpdate& staged = batch_->staged;
  if (staged.staged.trained.empty()) return {};
  if (staged.chunks.steps > 0) return shuffled(trained_chunks(staged.chunks, batch_->is_trained), key);
  return choice_.whole_sequences ? shuffled(batch_->prepared.sequences, key) : shuffled(staged.staged.trained, key);
}

std::function<void()> NetworkObjective::read(std::map<std::string, Array>& state) {
  ScalingHistory scalings(config_.max_policy_lag);
  scalings.load(state, replica_.encoder.features(), static_cast<float>(config_.model.observation_clip));
  return [this, scalings = std::move(scalings)]() mutable { scalings_ = std::move(scalings); };
}

}  // namespace

std::unique_ptr<Learner> make_network_learner(const LearnerConfig& config, const EnvSpec& env,
                                              const LearnerOptions& options) {
  return make_update_learner(config, std::make_unique<NetworkObjective>(config, env, options));
}

}  // namespace troupe
