// The MLP learner of a trainer: normalisers, targets, epochs of minibatches, and its saved state.
//
// Observation statistics take in a batch before it is trained on. So what is published is exactly what was trained: weights and
// normaliser together. The stored log-probabilities stay those of the policy that acted, so a moved normaliser counts as part of
// the importance ratio, like moved weights.

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "algorithms/advantages/vtrace.h"
#include "algorithms/common/algorithm_choice.h"
#include "algorithms/common/moments.h"
#include "algorithms/common/schedule.h"
#include "models/learning/minibatch.h"
#include "models/learning/optimizer.h"
#include "models/learning/policy_loss.h"
#include "models/learning/rollout_weights.h"
#include "models/learning/sequence_advantages.h"
#include "models/learning/sequences.h"
#include "models/networks/mlp.h"
#include "models/networks/mlp_parameters.h"
#include "models/networks/tensor_models.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

// Numbers per pass over the observations outside training: bounds the memory of a pass.
constexpr int64_t kNumbersPerPass = 4 << 20;
constexpr int64_t kRowsPerPass = 4096;

std::span<const float> floats_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

std::span<const int64_t> part_of(std::span<const int64_t> rows, int64_t begin, int64_t count) {
  const auto size = static_cast<int64_t>(rows.size());
  return rows.subspan(begin, std::min(count, size - begin));
}

// [R, D] 1 where a decision was executed.
std::vector<uint8_t> executed_decisions(const StagedRows& batch, int64_t decisions) {
  std::vector<uint8_t> result(static_cast<size_t>(batch.rows * decisions), 0);
  for (int64_t row = 0; row < batch.rows; ++row)
    std::fill_n(result.begin() + row * decisions, batch.decisions_of(row), uint8_t{1});
  return result;
}

void describe_correction(const OffPolicyMetrics& m, UpdateReport& report) {
  report.metrics["rollout_kl"] = m.kl;
  report.metrics["rollout_kl_k3"] = m.k3_kl;
  report.metrics["rollout_weight_mean"] = m.weight_mean;
  report.metrics["rollout_weight_max"] = m.weight_max;
  report.metrics["rollout_ess"] = m.ess;
  report.metrics["rollout_rejected"] = m.rejected_token_fraction;
  report.metrics["rollout_rejected_sequences"] = m.rejected_sequence_fraction;
}

class MlpLearner final : public Learner {
 public:
  MlpLearner(const RunConfig& config, const EnvSpec& env);

  std::shared_ptr<const Signature> signature() const override { return weights_.signature(); }
  WeightsPtr snapshot(PolicyVersion version) const override { return weights_.snapshot(version); }
  std::unique_ptr<StagedBatch> stage(const SuperBatch& batch) const override {
    return stage_rows(batch, env_, choice_.vtrace || choice_.sequences);
  }
  UpdateReport update(StagedBatch& staged, double progress) override;
  LearnerState save() const override;
  void load(const LearnerState& state) override;

 private:
  // What stays the same during one update.
  struct Settings {
    LearningRates rates;
    LossSettings loss;
  };
  // What the current weights say about the samples before they change.
  struct Start {
    std::vector<float> values;  // [R] in reward units
    StartProbabilities policy;
  };
  // What a staged batch is made into before the epochs.
  struct Prepared {
    Sequences sequences;  // none unless the algorithm asks for them
    Start start;
    TokenAdvantages advantages;
    RolloutWeights correction;
  };
  struct EpochReport {
    LossReport loss;
    double grad_norm_sum = 0.0;
    uint64_t steps = 0;
    uint64_t skipped = 0;
  };

  Settings settings_for(double progress) const;
  void absorb_observations(const StagedRows& batch);
  void absorb_returns(const StagedRows& batch);
  void schedule_log_std(double progress);
  void refresh_scaling();
  Prepared prepare(StagedRows& batch);
  std::vector<int64_t> groups_of(const StagedRows& batch, const Sequences& sequences) const;
  void make_vtrace_targets(StagedRows& batch, const Start& start);
  void evaluate_bootstraps(StagedRows& batch);
  Start evaluate_start(const StagedRows& batch);
  Targets make_targets(const StagedRows& batch, Prepared& prepared, UpdateReport& report) const;
  EpochReport run_epoch(const StagedRows& batch, const Prepared& prepared, const Targets& targets,
                        const Settings& settings, uint64_t epoch);
  void run_minibatch(const StagedRows& batch, const Targets& targets, const Settings& settings, RowRange rows,
                     EpochReport& epoch);
  bool accumulate(const StagedRows& batch, const Targets& targets, const Settings& settings, RowRange rows,
                  const LossTotals& totals, LossReport& loss);
  void adapt_kl(const EpochReport& epoch, const Settings& settings, size_t samples);
  void describe(const EpochReport& epoch, const Settings& settings, UpdateReport& report) const;
  at::Tensor tensor_of(std::span<float> values, int64_t columns) const;
  int64_t rows_per_pass() const { return std::clamp<int64_t>(kNumbersPerPass / encoder_.features(), 1, kRowsPerPass); }

  RunConfig config_;
  EnvSpec env_;
  AlgorithmChoice choice_;
  Head head_;
  ObservationEncoder encoder_;
  WeightBlock weights_;
  DeviceWeights device_weights_;
  Mlp network_;
  Optimizer optimizer_;
  PolicyLoss loss_;
  Minibatch minibatch_;
  FeatureScaling scaling_;
  double kl_coef_;
  uint64_t updates_ = 0;
  std::vector<float> output_gradients_, value_gradients_, log_std_gradients_;
};

MlpLearner::MlpLearner(const RunConfig& config, const EnvSpec& env)
    : config_(config),
      env_(env),
      choice_(choose_algorithm(config.algorithm)),
      head_(env.action),
      encoder_(env.observations),
      weights_(initial_mlp(config.model, config.seed, encoder_.features(), head_)),
      device_weights_(weights_, find_device(config.trainer.device), /*with_gradients=*/true),
      network_(config.model, device_weights_),
      optimizer_(config.trainer, weights_),
      loss_(choice_, config.algorithm.value_coef,
            static_cast<double>(config.rollout.length * (choice_.per_decision ? head_.decisions() : 1)), head_),
      minibatch_(head_, encoder_),
      kl_coef_(config.algorithm.kl_coef) {
  find_learning_rate_kind(config.trainer.lr_schedule);
  if (config.trainer.minibatches < 1 || config.trainer.epochs < 1)
    throw ConfigError("trainer.minibatches: " + std::to_string(config.trainer.minibatches) +
                      " and trainer.epochs: " + std::to_string(config.trainer.epochs) + ", both must be at least 1");
  log_std_gradients_.resize(head_.continuous() ? head_.decisions() : 0);
  refresh_scaling();
}

UpdateReport MlpLearner::update(StagedBatch& staged, double progress) {
  auto& batch = dynamic_cast<StagedRows&>(staged);
  UpdateReport report;
  const Settings settings = settings_for(progress);
  EpochReport last;
  if (!batch.sample_rows.empty()) {
    schedule_log_std(progress);
    absorb_observations(batch);
    Prepared prepared = prepare(batch);
    absorb_returns(batch);
    device_weights_.upload();
    const Targets targets = make_targets(batch, prepared, report);
    for (int64_t epoch = 0; epoch < config_.trainer.epochs; ++epoch) {
      last = run_epoch(batch, prepared, targets, settings, static_cast<uint64_t>(epoch));
      report.steps += last.steps;
      report.skipped += last.skipped;
      ++report.epochs;
      const double target_kl = config_.algorithm.target_kl;
      if (target_kl > 0.0 && last.loss.diagnostics.kl_k3 > target_kl) break;
    }
  }
  ++updates_;
  describe(last, settings, report);
  adapt_kl(last, settings, batch.sample_rows.size());
  return report;
}

// After the update, by the samples it trained on: its own penalty was weighted with the coefficient from before it.
void MlpLearner::adapt_kl(const EpochReport& epoch, const Settings& settings, size_t samples) {
  const AlgorithmConfig& algorithm = config_.algorithm;
  if (algorithm.kl_controller != "adaptive" || !settings.loss.train_policy || epoch.steps == 0) return;
  AdaptiveKl controller(kl_coef_, algorithm.kl_target, algorithm.kl_horizon);
  controller.update(epoch.loss.kl, static_cast<double>(samples));
  kl_coef_ = controller.value();
}

MlpLearner::Settings MlpLearner::settings_for(double progress) const {
  const TrainerConfig& trainer = config_.trainer;
  const AlgorithmConfig& algorithm = config_.algorithm;
  const double decay = decay_factor(find_learning_rate_kind(trainer.lr_schedule), progress, trainer.lr_min_ratio,
                                    trainer.lr_stable_ratio);
  // Counted from 1: an update at rate 0 would throw its samples away.
  const double factor =
      decay * warmup_factor(static_cast<double>(updates_ + 1), static_cast<double>(trainer.lr_warmup));
  Settings result;
  result.rates = {trainer.policy_lr * factor, trainer.value_lr * factor};
  result.loss.entropy_coef = algorithm.entropy_coef_end < 0.0
                                 ? algorithm.entropy_coef
                                 : linear(algorithm.entropy_coef, algorithm.entropy_coef_end, progress);
  result.loss.kl_coef = kl_coef_;
  result.loss.train_policy = updates_ >= static_cast<uint64_t>(trainer.value_only_updates);
  return result;
}

void MlpLearner::schedule_log_std(double progress) {
  if (!head_.continuous() || config_.model.log_std != "scheduled") return;
  const double value = linear(config_.model.log_std_start, config_.model.log_std_end, progress);
  std::ranges::fill(weights_.floats(kLogStd), static_cast<float>(value));
}

void MlpLearner::refresh_scaling() {
  if (config_.model.normalize_observations)
    scaling_ = FeatureScaling::of(read_normalizer(weights_, kObservationNormalizer), config_.model.observation_clip);
}

// Rows that hold a number that is not finite are left out: one would spoil the statistics for the rest of the run.
void MlpLearner::absorb_observations(const StagedRows& batch) {
  if (!config_.model.normalize_observations) return;
  RunningNormalizer normalizer = read_normalizer(weights_, kObservationNormalizer);
  const std::span<const int64_t> rows = batch.sample_rows;
  const int64_t features = encoder_.features();
  std::vector<uint8_t> finite;
  for (int64_t begin = 0; begin < static_cast<int64_t>(rows.size()); begin += rows_per_pass()) {
    const auto part = part_of(rows, begin, rows_per_pass());
    const std::span<const float> block = minibatch_.inputs(batch, part, {});
    finite.assign(part.size(), 1);
    for (size_t i = 0; i < part.size(); ++i)
      finite[i] = first_non_finite_row(block.subspan(i * features, features), 1) < 0;
    normalizer.update(block, finite);
  }
  write_normalizer(normalizer, kObservationNormalizer, weights_);
  refresh_scaling();
}

// The value head keeps saying the same in reward units when its units change (van Hasselt et al. 2016, "Learning values across
// many orders of magnitude", section 2.1).
void MlpLearner::absorb_returns(const StagedRows& batch) {
  if (!config_.model.normalize_returns) return;
  const ValueUnits before = value_units(weights_);
  RunningNormalizer normalizer = read_normalizer(weights_, kReturnNormalizer);
  const auto returns = batch.returns.view<float>();
  std::vector<float> finite;
  for (int64_t row : batch.sample_rows)
    if (std::isfinite(returns[row])) finite.push_back(returns[row]);
  normalizer.update(finite);
  write_normalizer(normalizer, kReturnNormalizer, weights_);
  const ValueUnits after = value_units(weights_);
  for (float& weight : weights_.floats("value.head.weight")) weight *= before.scale / after.scale;
  float& bias = weights_.floats("value.head.bias")[0];
  bias = (before.scale * bias + before.shift - after.shift) / after.scale;
}

at::Tensor MlpLearner::tensor_of(std::span<float> values, int64_t columns) const {
  const auto rows = static_cast<int64_t>(values.size()) / columns;
  return at::from_blob(values.data(), {rows, columns}, at::TensorOptions().dtype(at::kFloat))
      .to(device_weights_.device());
}

// Advantages, value targets and weights that need more than a row: one pass with the current weights, so they do not move within
// the update.
MlpLearner::Prepared MlpLearner::prepare(StagedRows& batch) {
  Prepared result;
  const AlgorithmConfig& algorithm = config_.algorithm;
  const bool evaluates = choice_.vtrace || choice_.correction || needs_probabilities(choice_);
  if (evaluates) {
    device_weights_.upload();
    result.start = evaluate_start(batch);
  }
  if (choice_.vtrace) make_vtrace_targets(batch, result.start);
  const auto advantages = batch.advantages.view<float>();
  result.advantages.values.assign(advantages.begin(), advantages.end());
  if (!choice_.sequences) return result;

  result.sequences = cut_sequences(batch, !algorithm.bootstrap_on_truncation);
  if (algorithm.incomplete == "drop") {
    result.sequences = complete_sequences(result.sequences);
    batch.sample_rows = result.sequences.rows;
    std::ranges::sort(batch.sample_rows);
  }
  const auto correct = [&](RolloutCorrection correction, std::span<const float> weighed) {
    if (weighed.empty()) correction.opsm_delta = std::numeric_limits<double>::infinity();
    result.correction = weigh_rollout(correction, batch, result.sequences, result.start.policy.log_probs, weighed,
                                      choice_.per_decision);
  };
  if (choice_.correction && needs_probabilities(choice_)) correct(*choice_.correction, {});
  if (choice_.advantage != nullptr) {
    const std::vector<int64_t> groups = groups_of(batch, result.sequences);
    result.advantages = estimate_sequences(choice_,
                                           {.sequences = result.sequences,
                                            .groups = groups,
                                            .gamma = algorithm.gamma,
                                            .decisions = head_.decisions(),
                                            .per_decision = choice_.per_decision,
                                            .start = needs_probabilities(choice_) ? &result.start.policy : nullptr,
                                            .weights = result.correction.weights},
                                           batch);
  }
  if (choice_.correction) correct(*choice_.correction, result.advantages.values);
  return result;
}

std::vector<int64_t> MlpLearner::groups_of(const StagedRows& batch, const Sequences& sequences) const {
  std::vector<int64_t> groups(static_cast<size_t>(sequences.count()), 0);
  if (config_.algorithm.group_by != "task" || batch.task.empty()) return groups;
  const auto task = batch.task.view<int32_t>();
  for (int64_t i = 0; i < sequences.count(); ++i) groups[i] = task[sequences.rows_of(i).front()];
  return groups;
}

// V-trace with the values and probabilities of the current weights.
void MlpLearner::make_vtrace_targets(StagedRows& batch, const Start& start) {
  std::ranges::copy(start.values, batch.values.mutable_view<float>().begin());
  const int64_t decisions = head_.decisions();
  const auto behaviour = batch.log_probs.view<float>();
  std::vector<float> log_rho(batch.rows, 0.0f);
  for (const int64_t row : batch.sample_rows)
    for (int64_t i = row * decisions; i < row * decisions + batch.decisions_of(row); ++i)
      log_rho[row] += start.policy.log_probs[i] - behaviour[i];
  evaluate_bootstraps(batch);
  const AlgorithmConfig& algorithm = config_.algorithm;
  for (const StagedSegment& segment : batch.segments) {
    const auto begin = static_cast<size_t>(segment.first_row),
               count = static_cast<size_t>(segment.steps * segment.columns);
    VtraceInput in;
    in.steps = segment.steps;
    in.sequences = segment.columns;
    in.log_rho = std::span<const float>(log_rho).subspan(begin, count);
    in.rewards = batch.rewards.view<float>().subspan(begin, count);
    in.values = batch.values.view<float>().subspan(begin, count);
    in.next_values = batch.next_values.view<float>().subspan(begin, count);
    in.terminated = batch.terminated.view<uint8_t>().subspan(begin, count);
    in.truncated = batch.truncated.view<uint8_t>().subspan(begin, count);
    in.valid = batch.valid.view<uint8_t>().subspan(begin, count);
    in.gamma = static_cast<float>(algorithm.gamma);
    in.lambda = static_cast<float>(algorithm.lambda);
    in.rho_bar = static_cast<float>(algorithm.rho_bar);
    in.c_bar = static_cast<float>(algorithm.c_bar);
    in.pg_rho_bar = static_cast<float>(algorithm.pg_rho_bar);
    in.multiply_pg_rho = algorithm.vtrace_adv == "pg_rho";
    in.bootstrap_on_truncation = algorithm.bootstrap_on_truncation;
    vtrace(in, batch.returns.mutable_view<float>().subspan(begin, count),
           batch.advantages.mutable_view<float>().subspan(begin, count));
  }
}

// The current weights' values of the observations after segments and cuts, in place of the workers'.
void MlpLearner::evaluate_bootstraps(StagedRows& batch) {
  const ValueUnits units = value_units(weights_);
  const auto next_values = batch.next_values.mutable_view<float>();
  const auto bootstraps = static_cast<int64_t>(batch.bootstrap_rows.size());
  std::vector<float> inputs;
  for (int64_t begin = 0; begin < bootstraps; begin += rows_per_pass()) {
    const int64_t end = std::min(bootstraps, begin + rows_per_pass());
    Arrays part;
    for (const auto& [name, array] : batch.bootstrap_observations) part.set(name, array.slice(begin, end));
    inputs.resize((end - begin) * encoder_.features());
    encoder_.encode(part, {}, scaling_, inputs);
    const at::Tensor values = network_.forward_values(tensor_of(inputs, encoder_.features())).cpu();
    for (int64_t i = begin; i < end; ++i)
      next_values[batch.bootstrap_rows[i]] = floats_of(values)[i - begin] * units.scale + units.shift;
  }
}

// Of the sample rows; the others keep the behaviour policy's values. A pass with outputs that are not finite becomes NaN, which every
// step of the update then refuses.
MlpLearner::Start MlpLearner::evaluate_start(const StagedRows& batch) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const ValueUnits units = value_units(weights_);
  const auto before = batch.values.view<float>();
  Start result{{before.begin(), before.end()}, {}};
  result.policy.log_probs.resize(batch.rows * head_.decisions());
  result.policy.sum_pi_squared.resize(needs_probabilities(choice_) ? batch.rows * head_.decisions() : 0);
  const std::span<const int64_t> rows = batch.sample_rows;
  const int64_t decisions = head_.decisions();
  std::vector<float> log_probs, squared, entropy;
  HeadScratch scratch;
  for (int64_t begin = 0; begin < static_cast<int64_t>(rows.size()); begin += rows_per_pass()) {
    const auto part = part_of(rows, begin, rows_per_pass());
    const Mlp::Output output =
        network_.forward(tensor_of(minibatch_.inputs(batch, part, scaling_), encoder_.features()));
    const at::Tensor outputs = output.policy.cpu(), head_values = output.values.cpu();
    LossInput input = minibatch_.action_input(batch, part);
    input.head.outputs = floats_of(outputs);
    if (head_.continuous()) input.head.log_std = weights_.floats(kLogStd);
    log_probs.assign(part.size() * decisions, kNaN);
    squared.assign(part.size() * decisions, kNaN);
    entropy.resize(part.size());
    if (first_non_finite_row(input.head.outputs, input.head.rows) < 0) {
      head_.evaluate(input.head, input.actions, log_probs, entropy, scratch);
      if (needs_probabilities(choice_)) head_.sum_squared_probabilities(scratch, squared);
    }
    for (size_t i = 0; i < part.size(); ++i) {
      result.values[part[i]] = floats_of(head_values)[i] * units.scale + units.shift;
      std::copy_n(log_probs.begin() + i * decisions, decisions, result.policy.log_probs.begin() + part[i] * decisions);
      if (needs_probabilities(choice_))
        std::copy_n(squared.begin() + i * decisions, decisions,
                    result.policy.sum_pi_squared.begin() + part[i] * decisions);
    }
  }
  return result;
}

Targets MlpLearner::make_targets(const StagedRows& batch, Prepared& prepared, UpdateReport& report) const {
  const auto values = batch.values.view<float>(), returns = batch.returns.view<float>();
  const int64_t width = prepared.advantages.per_row;
  std::vector<float> sampled_advantages, sampled_values, sampled_returns;
  std::vector<uint8_t> counted;  // of the advantages, where there is one per decision and not all were executed
  for (int64_t row : batch.sample_rows) {
    if (width > 1 && !batch.executed.empty())
      for (int64_t c = 0; c < width; ++c) counted.push_back(c < batch.decisions_of(row));
    const auto advantages = prepared.advantages.values.begin() + row * width;
    sampled_advantages.insert(sampled_advantages.end(), advantages, advantages + width);
    sampled_values.push_back(values[row]);
    sampled_returns.push_back(returns[row]);
  }
  const Moments advantage_moments = masked_moments(sampled_advantages, counted);
  const Moments return_moments = masked_moments(sampled_returns, {});
  report.metrics["advantage_mean"] = advantage_moments.mean;
  report.metrics["advantage_std"] = advantage_moments.stddev();
  report.metrics["return_mean"] = return_moments.mean;
  report.metrics["return_std"] = return_moments.stddev();
  report.metrics["explained_variance"] = explained_variance(sampled_values, sampled_returns, {});
  if (choice_.whitening) whiten(sampled_advantages, counted, advantage_moments, *choice_.whitening);
  if (choice_.correction) describe_correction(prepared.correction.metrics, report);

  const ValueUnits units = value_units(weights_);
  Targets result;
  result.advantages.resize(batch.rows * width);
  for (auto* column : {&result.values, &result.returns}) column->resize(batch.rows);
  for (size_t i = 0; i < batch.sample_rows.size(); ++i) {
    const int64_t row = batch.sample_rows[i];
    std::copy_n(sampled_advantages.begin() + i * width, width, result.advantages.begin() + row * width);
    result.values[row] = (sampled_values[i] - units.shift) / units.scale;
    result.returns[row] = (sampled_returns[i] - units.shift) / units.scale;
  }
  if (choice_.correction) {
    result.old_log_probs = std::move(prepared.start.policy.log_probs);
    result.rollout_weights = std::move(prepared.correction.weights);
    result.kept = std::move(prepared.correction.kept);
  } else if (choice_.per_decision && !batch.executed.empty()) {
    result.kept = executed_decisions(batch, head_.decisions());
  }
  return result;
}

MlpLearner::EpochReport MlpLearner::run_epoch(const StagedRows& batch, const Prepared& prepared, const Targets& targets,
                                              const Settings& settings, uint64_t epoch) {
  EpochReport report;
  const uint64_t key = derive_key(derive_key(config_.seed, "shuffle"), "epoch", updates_, epoch);
  const EpochOrder order =
      choice_.whole_sequences ? shuffled(prepared.sequences, key) : shuffled(batch.sample_rows, key);
  Settings own = settings;
  uint64_t index = 0;
  for (const RowRange& part : minibatches(order, config_.trainer.minibatches)) {
    own.loss.key = derive_key(key, "minibatch", index++);
    if (part.size() > 0) run_minibatch(batch, targets, own, part, report);
  }
  return report;
}

void MlpLearner::run_minibatch(const StagedRows& batch, const Targets& targets, const Settings& settings, RowRange rows,
                               EpochReport& epoch) {
  device_weights_.zero_gradients();
  std::ranges::fill(log_std_gradients_, 0.0f);
  const LossTotals totals = loss_.count(rows.size(), rows.offsets, minibatch_.kept(batch, targets, rows.rows));
  LossReport loss;
  bool usable = true;
  for (const RowRange& part : micro_batches(rows, config_.trainer.micro_batch))
    usable = usable && accumulate(batch, targets, settings, part, totals, loss);
  double norm = std::numeric_limits<double>::quiet_NaN();
  if (usable && std::isfinite(loss.loss)) {
    const std::span<float> gradients = device_weights_.host_gradients();
    if (device_weights_.has(kLogStd))
      std::ranges::copy(log_std_gradients_, gradients.begin() + device_weights_.offset(kLogStd));
    norm = optimizer_.step(gradients, settings.rates, settings.loss.train_policy);
  }
  if (!std::isfinite(norm)) {
    ++epoch.skipped;
    return;
  }
  device_weights_.upload();
  ++epoch.steps;
  epoch.grad_norm_sum += norm;
  epoch.loss.add_step(loss);
}

// Forward and backward of some rows of a minibatch; false when the network's outputs are not finite.
bool MlpLearner::accumulate(const StagedRows& batch, const Targets& targets, const Settings& settings, RowRange rows,
                            const LossTotals& totals, LossReport& loss) {
  const Mlp::Output output =
      network_.forward(tensor_of(minibatch_.inputs(batch, rows.rows, scaling_), encoder_.features()));
  const at::Tensor outputs = output.policy.cpu(), values = output.values.cpu();
  LossInput input = minibatch_.loss_input(batch, targets, rows);
  input.head.outputs = floats_of(outputs);
  input.values = floats_of(values);
  if (head_.continuous()) input.head.log_std = weights_.floats(kLogStd);
  if (first_non_finite_row(input.head.outputs, input.head.rows) >= 0) return false;
  output_gradients_.resize(input.head.outputs.size());
  value_gradients_.resize(rows.size());
  loss.merge(loss_.compute(input, totals, settings.loss, {output_gradients_, value_gradients_, log_std_gradients_}));
  const at::Tensor policy_gradients =
      settings.loss.train_policy ? tensor_of(output_gradients_, head_.outputs()) : at::Tensor();
  network_.backward(policy_gradients, tensor_of(value_gradients_, 1));
  return true;
}

void MlpLearner::describe(const EpochReport& epoch, const Settings& settings, UpdateReport& report) const {
  auto& metrics = report.metrics;
  metrics["policy_lr"] = settings.rates.policy;
  metrics["value_lr"] = settings.rates.value;
  metrics["skipped_steps"] = static_cast<double>(report.skipped);
  if (head_.continuous()) {
    double sum = 0.0;
    for (float value : weights_.floats(kLogStd)) sum += value;
    metrics["log_std"] = sum / static_cast<double>(head_.decisions());
  }
  if (config_.algorithm.kl_coef != 0.0) metrics["kl_coef"] = settings.loss.kl_coef;
  if (epoch.steps == 0) return;
  if (config_.algorithm.kl_coef != 0.0) metrics["kl_penalty"] = epoch.loss.kl;
  metrics["policy_loss"] = epoch.loss.policy_loss;
  metrics["value_loss"] = epoch.loss.value_loss;
  if (choice_.value_loss.clip > 0) metrics["value_clip_fraction"] = epoch.loss.value_clip_fraction;
  metrics["entropy"] = epoch.loss.entropy;
  const SurrogateDiagnostics& diagnostics = epoch.loss.diagnostics;
  metrics["kl"] = diagnostics.kl_k3;
  metrics["kl_k1"] = diagnostics.kl_k1;
  metrics["kl_k2"] = diagnostics.kl_k2;
  metrics["clip_fraction"] = diagnostics.clip_fraction;
  metrics["clip_fraction_lower"] = diagnostics.clip_fraction_lower;
  metrics["outside_fraction"] = diagnostics.outside_fraction;
  metrics["dead_gradient_fraction"] = diagnostics.dead_gradient_fraction;
  if (choice_.surrogate.entry->name == "sapo") metrics["saturated_fraction"] = diagnostics.saturated_fraction;
  metrics["ess"] = diagnostics.ess;
  metrics["ess_clamped"] = diagnostics.ess_clamped;
  metrics["ratio_mean"] = diagnostics.ratio_mean;
  metrics["ratio_max"] = diagnostics.ratio_max;
  metrics["ratio_min"] = diagnostics.ratio_min;
  metrics["grad_norm"] = epoch.grad_norm_sum / static_cast<double>(epoch.steps);
}

LearnerState MlpLearner::save() const {
  LearnerState state;
  state.model = weights_.save();
  optimizer_.save(state.optimizer, state.scalars);
  state.scalars["updates"] = static_cast<double>(updates_);
  if (config_.algorithm.kl_controller == "adaptive") state.scalars["kl_coef"] = kl_coef_;
  return state;
}

void MlpLearner::load(const LearnerState& state) {
  WeightBlock candidate(*weights_.signature());
  candidate.load(state.model);
  check_buffers(candidate);
  optimizer_.check(state.optimizer, state.scalars);
  const double updates = saved_count(state.scalars, "updates");

  weights_.load(state.model);
  optimizer_.load(state.optimizer, state.scalars);
  updates_ = static_cast<uint64_t>(updates);
  const auto kl_coef = state.scalars.find("kl_coef");
  kl_coef_ = kl_coef == state.scalars.end() ? config_.algorithm.kl_coef : kl_coef->second;
  device_weights_.upload();
  refresh_scaling();
}

}  // namespace

std::unique_ptr<Learner> make_mlp_learner(const RunConfig& config, const EnvSpec& env) {
  return std::make_unique<MlpLearner>(config, env);
}

}  // namespace troupe
