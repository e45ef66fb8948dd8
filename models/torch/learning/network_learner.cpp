#include "models/torch/learning/network_learner.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "algorithms/common/schedule.h"
#include "models/learning/normalizers.h"
#include "models/learning/shard_sum.h"
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

  EpochInput begin(std::span<StagedBatch* const> shards) override;
  size_t begin_epoch(uint64_t key) override;
  std::optional<size_t> begin_step(size_t minibatch, const UpdateSettings& settings) override;
  void backward(size_t part, StageClock& clock) override { form_->backward(part, clock); }
  StepReport apply() override { return form_->apply(); }
  void end(double progress) override;

 private:
  // A shard of the batch under way. The targets and all that refers to them are empty without samples to train on.
  struct Shard {
    StagedUpdate& staged;
    Prepared prepared = {};
    std::vector<uint8_t> is_trained = {};
    std::optional<Targets> targets = {};
    std::optional<Training> training = {};
    EpochOrder order = {};  // of the epoch

    bool empty() const { return staged.staged.trained.empty(); }
  };
  struct Batch {
    std::vector<Shard> shards = {};
    std::optional<RunningNormalizer> observations = {};      // of all shards, where they are normalised
    std::vector<std::vector<SampleRange>> minibatches = {};  // of the epoch: by minibatch, then by shard
    std::vector<LossTotals> totals = {};                     // by minibatch, of all shards
  };

  void begin_batches(std::vector<Shard>& shards);
  void prepare_targets(size_t number, Shard& shard);
  double trained_samples(const std::vector<Shard>& shards) const;
  void absorb_shard_returns(const std::vector<Shard>& shards);
  TargetFigures begin_steps(std::vector<Shard>& shards);
  EpochOrder epoch_order(const Shard& shard, uint64_t key) const;
  void schedule_log_std(double progress);

  LearnerConfig config_;
  AlgorithmChoice choice_;
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
                                      bool device_form) {
  if (is_on_device(replica, device_form)) return std::make_unique<DeviceForm>(config, replica, choice);
  return std::make_unique<HostForm>(config, replica, choice);
}

NetworkObjective::NetworkObjective(const LearnerConfig& config, const EnvSpec& env, const LearnerOptions& options)
    : config_(config),
      choice_(choose_algorithm(config.algorithm)),
      replica_(config, env, options.network ? *options.network : define_network(config.model, env),
               find_device(config.trainer.device, "trainer.device"), /*with_gradients=*/true,
               /*own_memory=*/options.device_form),
      form_(make_form(config, replica_, choice_, options.device_form)),
      stager_(make_policy_stager(config, env, replica_, is_on_device(replica_, options.device_form))),
      scalings_(config.max_policy_lag) {}

EpochInput NetworkObjective::begin(std::span<StagedBatch* const> shards) {
  batch_.emplace();
  for (StagedBatch* shard : shards) batch_->shards.push_back(Shard{dynamic_cast<StagedUpdate&>(*shard)});
  if (FeatureScaling newest = replica_.scaling(); !newest.mean.empty())
    scalings_.set(shards.front()->index, std::move(newest));
  if (std::ranges::all_of(batch_->shards, &Shard::empty)) return {};
  begin_batches(batch_->shards);
  EpochInput result = {.samples = trained_samples(batch_->shards)};
  if (result.samples == 0) return {};
  absorb_shard_returns(batch_->shards);
  result.figures = begin_steps(batch_->shards);
  return result;
}

// Samples are normalised as they were when the policy acted.
void NetworkObjective::begin_batches(std::vector<Shard>& shards) {
  const bool normalizes = !replica_.scaling().mean.empty();
  for (size_t number = 0; number < shards.size(); ++number) {
    StagedUpdate& staged = shards[number].staged;
    SampleScalings scalings;
    if (normalizes) scalings = scalings_.of(staged.staged.versions, staged.staged.bootstrap_samples);
    form_->begin(number, staged, scalings);
    if (!shards[number].empty()) prepare_targets(number, shards[number]);
    shards[number].is_trained = trained_mask(staged.staged);
    if (!staged.observations) continue;
    if (batch_->observations)
      batch_->observations->merge(*staged.observations);
    else
      batch_->observations = staged.observations;
  }
}

// Samples of an epoch, without the burn-in and incomplete sequences.
double NetworkObjective::trained_samples(const std::vector<Shard>& shards) const {
  double result = 0;
  for (const Shard& shard : shards) result += static_cast<double>(count_trained(shard.staged.chunks, shard.is_trained));
  return result;
}

void NetworkObjective::absorb_shard_returns(const std::vector<Shard>& shards) {
  if (!config_.model.normalize_returns) return;
  RunningNormalizer statistics = return_statistics(shards.front().staged.staged);
  for (const Shard& shard : std::span(shards).subspan(1)) statistics.merge(return_statistics(shard.staged.staged));
  absorb_returns(statistics, replica_.layout.value_head, replica_.weights);
}

// Makes the targets with what the samples of all shards have in common.
TargetFigures NetworkObjective::begin_steps(std::vector<Shard>& shards) {
  std::vector<TrainedColumns> columns;
  std::vector<OffPolicyMetrics> corrections;
  for (const Shard& shard : shards) {
    columns.push_back(trained_columns(shard.staged.staged, shard.prepared));
    if (!shard.empty()) corrections.push_back(shard.prepared.correction.metrics);
  }
  TargetMoments moments = target_moments(columns.front());
  for (const TrainedColumns& each : std::span(columns).subspan(1)) moments.merge(target_moments(each));
  for (size_t number = 0; number < shards.size(); ++number) {
    Shard& shard = shards[number];
    shard.targets = make_targets(choice_, shard.staged.staged, shard.prepared, columns[number],
                                 value_units(replica_.weights), moments.advantages);
    shard.training.emplace(Training{*shard.targets, shard.is_trained});
    form_->begin_steps(number, *shard.training);
  }
  TargetFigures result = {.advantages = moments.advantages,
                          .returns = moments.returns,
                          .explained_variance = explained_variance(moments.fit),
                          .correction = {}};
  if (choice_.correction) result.correction = mean_of(corrections);
  return result;
}

size_t NetworkObjective::begin_epoch(uint64_t key) {
  const auto count = static_cast<size_t>(config_.trainer.minibatches);
  batch_->minibatches.assign(count, {});
  batch_->totals.assign(count, {});
  for (size_t number = 0; number < batch_->shards.size(); ++number) {
    Shard& shard = batch_->shards[number];
    shard.order = epoch_order(shard, shard_key(key, number));
    const std::vector<SampleRange> ranges = minibatches(shard.order, config_.trainer.minibatches);
    for (size_t i = 0; i < count; ++i) {
      batch_->minibatches[i].push_back(ranges[i]);
      const LossTotals own = form_->count(number, ranges[i]);
      LossTotals& all = batch_->totals[i];
      all.samples += own.samples;
      all.counts.tokens += own.counts.tokens;
      all.counts.sequences += own.counts.sequences;
    }
  }
  return count;
}

std::optional<size_t> NetworkObjective::begin_step(size_t minibatch, const UpdateSettings& settings) {
  const LossTotals& totals = batch_->totals[minibatch];
  if (totals.samples == 0) return std::nullopt;
  return form_->begin_step(settings, batch_->minibatches[minibatch], totals, config_.trainer.micro_batch);
}

void NetworkObjective::end(double progress) {
  if (batch_->shards.front().training) form_->end();
  if (batch_->observations) absorb_observations(*batch_->observations, replica_.weights);
  schedule_log_std(progress);
  batch_.reset();
}

void NetworkObjective::schedule_log_std(double progress) {
  if (!replica_.head.continuous() || config_.model.log_std != "scheduled") return;
  const double value = linear(config_.model.log_std_start, config_.model.log_std_end, progress);
  std::ranges::fill(replica_.weights.floats(kLogStd), static_cast<float>(value));
}

void NetworkObjective::prepare_targets(size_t number, Shard& shard) {
  StagedSamples& samples = shard.staged.staged;
  CurrentNetwork network;
  Start start;
  if (choice_.start) {
    network = form_->current_network(number);
    start = evaluate_start(samples, network, replica_.head.decisions(), needs_probabilities(choice_));
  }
  shard.prepared = prepare(choice_, config_.algorithm, replica_.head, network, std::move(start), samples);
}

// The order of samples, of whole sequences, or of chunks by their indices.
EpochOrder NetworkObjective::epoch_order(const Shard& shard, uint64_t key) const {
  if (shard.empty()) return {};
  const StagedUpdate& staged = shard.staged;
  if (staged.chunks.steps > 0) return shuffled(trained_chunks(staged.chunks, shard.is_trained), key);
  return choice_.whole_sequences ? shuffled(shard.prepared.sequences, key) : shuffled(staged.staged.trained, key);
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
