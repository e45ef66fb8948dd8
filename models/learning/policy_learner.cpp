#include "models/learning/policy_learner.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "algorithms/common/schedule.h"
#include "models/learning/chunk_forward.h"
#include "models/learning/chunks.h"
#include "models/learning/gradient_step.h"
#include "models/learning/metrics.h"
#include "models/learning/normalizers.h"
#include "models/learning/row_passes.h"
#include "models/learning/start.h"
#include "models/recurrence.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

struct StagedUpdate final : StagedBatch {
  StagedRows rows;
  Chunks chunks;  // with recurrent state
};

// Observation statistics take in a batch before it is trained on. So what is published is exactly what was trained: weights and
// normaliser together. The stored log-probabilities stay those of the policy that acted, so a moved normaliser counts as part of
// the importance ratio, like moved weights.
class PolicyLearner final : public Learner {
 public:
  PolicyLearner(const LearnerConfig& config, const EnvSpec& env);

  std::shared_ptr<const Signature> signature() const override { return replica_.weights.signature(); }
  WeightsPtr snapshot(PolicyVersion version) const override { return replica_.weights.snapshot(version); }
  std::unique_ptr<StagedBatch> stage(const SuperBatch& batch) const override;
  UpdateReport update(StagedBatch& staged, double progress) override;
  LearnerState save() const override;
  void load(const LearnerState& state) override;

 private:
  // What a staged batch is made into before the epochs.
  struct Batch {
    StagedRows& rows;
    const Chunks& chunks;
    std::vector<at::Tensor> inputs, bootstrap_inputs;  // on the device
  };

  Batch normalize(StagedUpdate& staged);
  Prepared prepare_targets(Batch& batch);
  CurrentNetwork current_network(const Batch& batch);
  CurrentNetwork current_recurrent_network(const Batch& batch);
  EpochReport run_epoch(const TrainingRows& training, const Sequences& sequences, const UpdateSettings& settings,
                        uint64_t epoch);
  void schedule_log_std(double progress);
  void adapt_kl(const EpochReport& epoch, bool trained_policy, size_t samples);

  LearnerConfig config_;
  EnvSpec env_;
  AlgorithmChoice choice_;
  Recurrence recurrence_;
  Replica replica_;
  Optimizer optimizer_;
  PolicyLoss loss_;
  GradientStep step_;
  double kl_coef_;
  uint64_t updates_ = 0;
};

std::vector<uint8_t> sample_mask(const StagedRows& batch) {
  std::vector<uint8_t> result(static_cast<size_t>(batch.rows), 0);
  for (const int64_t row : batch.sample_rows) result[static_cast<size_t>(row)] = 1;
  return result;
}

// Of samples, of whole sequences, or of chunks by their indices.
EpochOrder epoch_order(const TrainingRows& training, const Sequences& sequences, bool whole_sequences, uint64_t key) {
  if (training.chunks.steps > 0) return shuffled(trained_chunks(training.chunks, training.is_sample), key);
  return whole_sequences ? shuffled(sequences, key) : shuffled(training.batch.sample_rows, key);
}

double tokens_per_rollout(const LearnerConfig& config, const AlgorithmChoice& choice, const Head& head) {
  return static_cast<double>(config.rollout_length * (choice.per_decision ? head.decisions() : 1));
}

PolicyLearner::PolicyLearner(const LearnerConfig& config, const EnvSpec& env)
    : config_(config),
      env_(env),
      choice_(choose_algorithm(config.algorithm)),
      recurrence_(recurrence_of(config, env)),
      replica_(config, env, config.trainer.device, /*with_gradients=*/true),
      optimizer_(config.trainer, replica_.weights),
      loss_(choice_, config.algorithm.value_coef, tokens_per_rollout(config, choice_, replica_.head), replica_.head),
      step_(replica_, loss_, optimizer_),
      kl_coef_(config.algorithm.kl_coef) {
  find_learning_rate_kind(config.trainer.lr_schedule);
  if (config.trainer.minibatches < 1 || config.trainer.epochs < 1)
    throw ConfigError("trainer.minibatches: " + std::to_string(config.trainer.minibatches) +
                      " and trainer.epochs: " + std::to_string(config.trainer.epochs) + ", both must be at least 1");
}

std::unique_ptr<StagedBatch> PolicyLearner::stage(const SuperBatch& batch) const {
  auto result = std::make_unique<StagedUpdate>();
  result->index = batch.index;
  const bool whole_columns = choice_.columns || recurrence_.state_size > 0;
  result->rows = stage_rows(batch, env_, replica_.encoder, whole_columns, rollout_extras(config_.algorithm));
  result->chunks = stage_chunks(batch, result->rows, recurrence_);
  result->samples = result->rows.sample_rows.size();
  return result;
}

UpdateReport PolicyLearner::update(StagedBatch& staged, double progress) {
  auto& own = dynamic_cast<StagedUpdate&>(staged);
  StagedRows& rows = own.rows;
  UpdateReport report;
  const UpdateSettings settings = update_settings(config_, updates_, kl_coef_, progress);
  EpochReport last;
  std::optional<TargetFigures> figures;
  if (!rows.sample_rows.empty()) {
    schedule_log_std(progress);
    Batch batch = normalize(own);
    Prepared prepared = prepare_targets(batch);
    absorb_returns(rows, replica_.weights);
    replica_.device.upload();
    const Targets targets = make_targets(choice_, rows, prepared, value_units(replica_.weights), figures.emplace());
    const std::vector<uint8_t> is_sample = sample_mask(rows);
    const TrainingRows training = {rows, own.chunks, batch.inputs, targets, is_sample};
    for (int64_t epoch = 0; epoch < config_.trainer.epochs; ++epoch) {
      last = run_epoch(training, prepared.sequences, settings, static_cast<uint64_t>(epoch));
      report.steps += last.steps;
      report.skipped += last.skipped;
      ++report.epochs;
      const double target_kl = config_.algorithm.target_kl;
      if (target_kl > 0.0 && last.loss.diagnostics.kl_k3 > target_kl) break;
    }
  }
  ++updates_;
  report.metrics = metrics_of({.choice = choice_,
                               .settings = settings,
                               .epoch = last,
                               .targets = figures,
                               .skipped = report.skipped,
                               .log_std = replica_.log_std(),
                               .penalizes_kl = config_.algorithm.kl_coef != 0.0});
  adapt_kl(last, settings.loss.train_policy, rows.sample_rows.size());
  return report;
}

void PolicyLearner::schedule_log_std(double progress) {
  if (!replica_.head.continuous() || config_.model.log_std != "scheduled") return;
  const double value = linear(config_.model.log_std_start, config_.model.log_std_end, progress);
  std::ranges::fill(replica_.weights.floats(kLogStd), static_cast<float>(value));
}

// Statistics first, then the batch itself.
PolicyLearner::Batch PolicyLearner::normalize(StagedUpdate& staged) {
  StagedRows& rows = staged.rows;
  absorb_observations(rows, replica_.encoder, replica_.weights);
  const FeatureScaling scaling = replica_.scaling();
  replica_.encoder.scale(scaling, rows.inputs);
  replica_.encoder.scale(scaling, rows.bootstrap_inputs);
  return {rows, staged.chunks, replica_.tensors_of(rows.inputs), replica_.tensors_of(rows.bootstrap_inputs)};
}

Prepared PolicyLearner::prepare_targets(Batch& batch) {
  CurrentNetwork network = current_network(batch);
  Start start;
  if (choice_.start) {
    replica_.device.upload();
    if (recurrence_.state_size > 0) network = current_recurrent_network(batch);
    Minibatch minibatch(replica_.head);
    start = evaluate_start(batch.rows, network, replica_.head, minibatch, needs_probabilities(choice_));
  }
  return prepare(choice_, config_.algorithm, replica_.head, network, std::move(start), batch.rows);
}

CurrentNetwork PolicyLearner::current_network(const Batch& batch) {
  CurrentNetwork result;
  result.units = value_units(replica_.weights);
  result.log_std = replica_.log_std();
  result.rows_per_pass = rows_per_pass(replica_.encoder);
  // The tensors behind the spans live until the next call.
  result.evaluate = [this, &batch, outputs = at::Tensor(),
                     values = at::Tensor()](std::span<const int64_t> rows) mutable {
    const NetworkOutput output = replica_.network->forward(step_.gather(batch.inputs, rows), false);
    outputs = output.policy.cpu();
    values = output.values.cpu();
    return RowOutputs{floats_of(outputs), floats_of(values)};
  };
  result.bootstrap_values = [this, &batch, values = at::Tensor()](int64_t begin, int64_t end) mutable {
    NetworkInput input;
    for (const at::Tensor& all : batch.bootstrap_inputs) input.observations.push_back(all.slice(0, begin, end));
    values = replica_.network->values(input).cpu();
    return floats_of(values);
  };
  return result;
}

// One pass over the chunks says everything, because a row's state depends on the rows before it.
CurrentNetwork PolicyLearner::current_recurrent_network(const Batch& batch) {
  CurrentNetwork result = current_network(batch);
  const auto said =
      std::make_shared<const BatchOutputs>(run_batch(step_.chunk_forward(), replica_, batch.rows, batch.chunks,
                                                     batch.inputs, batch.bootstrap_inputs, result.rows_per_pass));
  result.evaluate = [said, width = replica_.head.outputs(), outputs = std::vector<float>(),
                     values = std::vector<float>()](std::span<const int64_t> rows) mutable {
    outputs.clear();
    values.clear();
    for (const int64_t row : rows) {
      const auto begin = said->outputs.begin() + row * width;
      outputs.insert(outputs.end(), begin, begin + width);
      values.push_back(said->values[static_cast<size_t>(row)]);
    }
    return RowOutputs{outputs, values};
  };
  result.bootstrap_values = [said](int64_t begin, int64_t end) {
    return std::span(said->bootstraps).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  };
  return result;
}

EpochReport PolicyLearner::run_epoch(const TrainingRows& training, const Sequences& sequences,
                                     const UpdateSettings& settings, uint64_t epoch) {
  EpochReport report;
  const uint64_t key = derive_key(derive_key(config_.seed, "shuffle"), "epoch", updates_, epoch);
  const EpochOrder order = epoch_order(training, sequences, choice_.whole_sequences, key);
  UpdateSettings own = settings;
  uint64_t index = 0;
  for (const RowRange& rows : minibatches(order, config_.trainer.minibatches)) {
    own.loss.key = derive_key(key, "minibatch", index++);
    if (rows.size() == 0) continue;
    const StepReport step = step_.run(training, own, rows, config_.trainer.micro_batch);
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

// After the update, by the samples it trained on: its own penalty was weighted with the coefficient from before it.
void PolicyLearner::adapt_kl(const EpochReport& epoch, bool trained_policy, size_t samples) {
  const AlgorithmConfig& algorithm = config_.algorithm;
  if (algorithm.kl_controller != "adaptive" || !trained_policy || epoch.steps == 0) return;
  AdaptiveKl controller(kl_coef_, algorithm.kl_target, algorithm.kl_horizon);
  controller.update(epoch.loss.kl, static_cast<double>(samples));
  kl_coef_ = controller.value();
}

LearnerState PolicyLearner::save() const {
  LearnerState state;
  state.model = replica_.weights.save();
  optimizer_.save(state.optimizer, state.scalars);
  state.scalars["updates"] = static_cast<double>(updates_);
  if (config_.algorithm.kl_controller == "adaptive") state.scalars["kl_coef"] = kl_coef_;
  return state;
}

void PolicyLearner::load(const LearnerState& state) {
  WeightBlock candidate(*signature());
  candidate.load(state.model);
  check_buffers(candidate);
  optimizer_.check(state.optimizer, state.scalars);
  const double updates = saved_count(state.scalars, "updates");

  replica_.weights.load(state.model);
  optimizer_.load(state.optimizer, state.scalars);
  updates_ = static_cast<uint64_t>(updates);
  const auto kl_coef = state.scalars.find("kl_coef");
  kl_coef_ = kl_coef == state.scalars.end() ? config_.algorithm.kl_coef : kl_coef->second;
  replica_.device.upload();
}

}  // namespace

std::unique_ptr<Learner> make_policy_learner(const LearnerConfig& config, const EnvSpec& env) {
  return std::make_unique<PolicyLearner>(config, env);
}

}  // namespace troupe
