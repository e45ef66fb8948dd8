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
#include "models/shards/shard_sum.h"
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

  void hold_shards(ShardRange shards) override { form_->hold_shards(shards); }
  void hold_slice(ElementRange elements) override {
    Objective::hold_slice(elements);
    form_->hold_slice(elements);
  }
  RankPart begin(std::span<StagedBatch* const> shards) override;
  EpochInput make_targets(const RoundResult& all) override;
  std::vector<ShardNumbers> begin_epoch(uint64_t key) override;
  size_t use_epoch(std::span<const ShardNumbers> all) override;
  std::optional<std::vector<size_t>> begin_step(size_t minibatch, const UpdateSettings& settings) override;
  void backward(size_t part, StageClock& clock) override { form_->backward(part, clock); }
  void say_gradients_to(SayGradients say) override { form_->say_gradients_to(std::move(say)); }
  void end_backward() override { form_->end_backward(); }
  RankPart say_losses() override { return {form_->held(), form_->losses(), {}}; }
  void set_gradients(ElementRange elements, const Array& sum) override { form_->set_gradients(elements, sum); }
  void end_micro_batch(const RoundResult&) override { form_->end_micro_batch(); }
  GradientSquares squares(ElementRange elements) override { return form_->squares(elements); }
  StepReport apply(std::span<const ShardNumbers> all, const GradientSquares* squares) override {
    return form_->apply(all, squares);
  }
  Array parameters(ElementRange elements) override { return form_->parameters(elements); }
  void set_parameters(ElementRange elements, const Array& values) override { form_->set_parameters(elements, values); }
  void use_parameters() override { form_->use_parameters(); }
  void end(double progress) override;

 private:
  // A shard of the batch under way. The targets and all that refers to them are empty without samples to train on.
  struct Shard {
    StagedUpdate& staged;
    Prepared prepared = {};
    TrainedColumns columns = {};
    std::vector<uint8_t> is_trained = {};
    std::optional<Targets> targets = {};
    std::optional<Training> training = {};
    EpochOrder order = {};                      // of the epoch
    std::vector<SampleRange> minibatches = {};  // of the epoch

    bool empty() const { return staged.staged.trained.empty(); }
  };
  // What a shard says before the first epoch.
  struct Said {
    double samples = 0;  // of an epoch, without the burn-in and incomplete sequences
    std::optional<RunningNormalizer> observations = {}, returns = {};  // where they are normalised
    TargetMoments moments = {};
    std::optional<OffPolicyMetrics> correction = {};  // where there are samples, and the algorithm corrects
  };
  // What a shard says of a minibatch before an epoch.
  struct MinibatchCounts {
    double samples = 0, tokens = 0, sequences = 0, micro_batches = 0;
  };
  // Of all shards.
  struct MinibatchTotals {
    LossTotals losses = {};
    size_t micro_batches = 0;  // of the shard that has most
  };
  struct Batch {
    std::vector<Shard> shards = {};                      // that are computed here
    std::optional<RunningNormalizer> observations = {};  // of all shards, where they are normalised
    std::vector<MinibatchTotals> totals = {};            // by minibatch
  };

  void begin_shard(size_t number, Shard& shard);
  void prepare_targets(size_t number, Shard& shard);
  ShardNumbers numbers_of(const Shard& shard) const;
  Said said_of(const ShardNumbers& numbers) const;
  TargetFigures begin_steps(std::span<const Said> all);
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

RankPart NetworkObjective::begin(std::span<StagedBatch* const> shards) {
  batch_.emplace();
  for (StagedBatch* shard : shards) batch_->shards.push_back(Shard{dynamic_cast<StagedUpdate&>(*shard)});
  if (FeatureScaling newest = replica_.scaling(); !newest.mean.empty())
    scalings_.set(shards.front()->index, std::move(newest));
  RankPart result = {form_->held(), {}, {}};
  for (size_t number = 0; number < batch_->shards.size(); ++number) {
    begin_shard(number, batch_->shards[number]);
    result.numbers.push_back(numbers_of(batch_->shards[number]));
  }
  return result;
}

// Samples are normalised as they were when the policy acted.
void NetworkObjective::begin_shard(size_t number, Shard& shard) {
  StagedUpdate& staged = shard.staged;
  SampleScalings scalings;
  if (!replica_.scaling().mean.empty())
    scalings = scalings_.of(staged.staged.versions, staged.staged.bootstrap_samples);
  form_->begin(number, staged, scalings);
  if (!shard.empty()) prepare_targets(number, shard);
  shard.is_trained = trained_mask(staged.staged);
  shard.columns = trained_columns(staged.staged, shard.prepared);
}

ShardNumbers NetworkObjective::numbers_of(const Shard& shard) const {
  ShardNumbers result;
  put(result, static_cast<double>(count_trained(shard.staged.chunks, shard.is_trained)));
  if (config_.model.normalize_observations) put(result, shard.staged.observations.value());
  if (config_.model.normalize_returns) put(result, return_statistics(shard.staged.staged));
  put(result, target_moments(shard.columns));
  if (!choice_.correction) return result;
  put(result, shard.empty() ? 0.0 : 1.0);
  if (!shard.empty()) put(result, shard.prepared.correction.metrics);
  return result;
}

NetworkObjective::Said NetworkObjective::said_of(const ShardNumbers& numbers) const {
  NumberReader reader(numbers);
  Said result;
  result.samples = reader.take<double>();
  if (config_.model.normalize_observations) result.observations = reader.take_normalizer(replica_.encoder.features());
  if (config_.model.normalize_returns) result.returns = reader.take_normalizer(1);
  result.moments = reader.take<TargetMoments>();
  if (choice_.correction && reader.take<double>() != 0) result.correction = reader.take<OffPolicyMetrics>();
  reader.end();
  return result;
}

EpochInput NetworkObjective::make_targets(const RoundResult& all) {
  std::vector<Said> said;
  for (const ShardNumbers& numbers : all.numbers) said.push_back(said_of(numbers));
  EpochInput result;
  std::optional<RunningNormalizer> returns;
  const auto merge = [](std::optional<RunningNormalizer>& sum, const std::optional<RunningNormalizer>& other) {
    if (!other) return;
    if (sum)
      sum->merge(*other);
    else
      sum = other;
  };
  for (const Said& shard : said) {
    result.samples += shard.samples;
    merge(batch_->observations, shard.observations);
    merge(returns, shard.returns);
  }
  if (result.samples == 0) return {};
  if (returns) absorb_returns(*returns, replica_.layout.value_head, replica_.weights);
  result.figures = begin_steps(said);
  return result;
}

// Makes the targets with what the samples of all shards have in common.
TargetFigures NetworkObjective::begin_steps(std::span<const Said> all) {
  std::vector<OffPolicyMetrics> corrections;
  TargetMoments moments = all.front().moments;
  for (const Said& each : all.subspan(1)) moments.merge(each.moments);
  for (const Said& each : all)
    if (each.correction) corrections.push_back(*each.correction);
  for (size_t number = 0; number < batch_->shards.size(); ++number) {
    Shard& shard = batch_->shards[number];
    shard.targets = troupe::make_targets(choice_, shard.staged.staged, shard.prepared, shard.columns,
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

std::vector<ShardNumbers> NetworkObjective::begin_epoch(uint64_t key) {
  std::vector<ShardNumbers> result;
  for (size_t number = 0; number < batch_->shards.size(); ++number) {
    Shard& shard = batch_->shards[number];
    shard.order = epoch_order(shard, shard_key(key, form_->held().first + number));
    shard.minibatches = minibatches(shard.order, config_.trainer.minibatches);
    ShardNumbers& numbers = result.emplace_back();
    for (const SampleRange& minibatch : shard.minibatches) {
      const LossTotals own = form_->count(number, minibatch);
      const size_t micro_batches = form_->micro_batches_of(number, minibatch, config_.trainer.micro_batch);
      put(numbers, MinibatchCounts{static_cast<double>(own.samples), own.counts.tokens, own.counts.sequences,
                                   static_cast<double>(micro_batches)});
    }
  }
  return result;
}

size_t NetworkObjective::use_epoch(std::span<const ShardNumbers> all) {
  const auto count = static_cast<size_t>(config_.trainer.minibatches);
  batch_->totals.assign(count, {});
  for (const ShardNumbers& numbers : all) {
    NumberReader reader(numbers);
    for (MinibatchTotals& totals : batch_->totals) {
      const auto own = reader.take<MinibatchCounts>();
      totals.losses.samples += static_cast<int64_t>(own.samples);
      totals.losses.counts.tokens += own.tokens;
      totals.losses.counts.sequences += own.sequences;
      totals.micro_batches = std::max(totals.micro_batches, static_cast<size_t>(own.micro_batches));
    }
    reader.end();
  }
  return count;
}

std::optional<std::vector<size_t>> NetworkObjective::begin_step(size_t minibatch, const UpdateSettings& settings) {
  const MinibatchTotals& totals = batch_->totals[minibatch];
  if (totals.losses.samples == 0) return std::nullopt;
  std::vector<SampleRange> own;
  for (const Shard& shard : batch_->shards) own.push_back(shard.minibatches[minibatch]);
  return form_->begin_step(settings, own, totals.losses, config_.trainer.micro_batch, totals.micro_batches);
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
