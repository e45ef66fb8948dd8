#include "models/learning/targets.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "algorithms/advantages/vtrace.h"
#include "algorithms/common/moments.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

// [B, D] 1 where a decision was executed.
std::vector<uint8_t> executed_decisions(const StagedSamples& batch, int64_t decisions) {
  std::vector<uint8_t> result(static_cast<size_t>(batch.count * decisions), 0);
  for (int64_t sample = 0; sample < batch.count; ++sample)
    std::fill_n(result.begin() + sample * decisions, batch.decisions_of(sample), uint8_t{1});
  return result;
}

// V-trace with the values and probabilities of the current weights.
void make_vtrace_targets(const AlgorithmConfig& algorithm, int64_t decisions, const Start& start,
                         const CurrentNetwork& network, StagedSamples& batch) {
  std::ranges::copy(start.values, batch.values.mutable_view<float>().begin());
  for (Array* array : {&batch.advantages, &batch.returns}) *array = Array::uninitialized(DType::f32, {batch.count});
  const auto behaviour = batch.log_probs.view<float>();
  std::vector<float> log_rho(batch.count, 0.0f);
  for (const int64_t sample : batch.trained)
    for (int64_t i = sample * decisions; i < sample * decisions + batch.decisions_of(sample); ++i)
      log_rho[sample] += start.policy.log_probs[i] - behaviour[i];
  evaluate_bootstraps(network, batch);
  for (const StagedRollout& rollout : batch.rollouts) {
    const auto begin = static_cast<size_t>(rollout.first_sample),
               count = static_cast<size_t>(rollout.steps * rollout.columns);
    VtraceInput in;
    in.steps = rollout.steps;
    in.sequences = rollout.columns;
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

std::vector<int64_t> groups_of(const std::string& group_by, const StagedSamples& batch, const Sequences& sequences) {
  std::vector<int64_t> groups(static_cast<size_t>(sequences.count()), 0);
  if (group_by != "task" || batch.task.empty()) return groups;
  const auto task = batch.task.view<int32_t>();
  for (int64_t i = 0; i < sequences.count(); ++i) groups[i] = task[sequences.samples_of(i).front()];
  return groups;
}

}  // namespace

Prepared prepare(const AlgorithmChoice& choice, const AlgorithmConfig& config, const Head& head,
                 const CurrentNetwork& network, Start start, StagedSamples& batch) {
  Prepared result;
  result.start = std::move(start);
  const EstimatorRun& run = choice.advantage->run;
  if (run.importance_weights) make_vtrace_targets(config, head.decisions(), result.start, network, batch);
  if (!run.sequences) {
    const auto advantages = batch.advantages.view<float>();
    result.advantages.values.assign(advantages.begin(), advantages.end());
  }
  if (!choice.sequences) return result;

  result.sequences = cut_sequences(batch, !config.bootstrap_on_truncation);
  if (config.incomplete == "drop") {
    result.sequences = complete_sequences(result.sequences);
    batch.trained = result.sequences.samples;
    std::ranges::sort(batch.trained);
  }
  const auto correct = [&](RolloutCorrection correction, std::span<const float> weighed) {
    if (weighed.empty()) correction.opsm_delta = std::numeric_limits<double>::infinity();
    result.correction =
        weigh_rollout(correction, batch, result.sequences, result.start.policy.log_probs, weighed, choice.per_decision);
  };
  const bool probabilities = needs_probabilities(choice);
  if (choice.correction && probabilities) correct(*choice.correction, {});
  if (run.sequences) {
    const std::vector<int64_t> groups = groups_of(config.group_by, batch, result.sequences);
    result.advantages = estimate_sequences(choice,
                                           {.sequences = result.sequences,
                                            .groups = groups,
                                            .gamma = config.gamma,
                                            .decisions = head.decisions(),
                                            .per_decision = choice.per_decision,
                                            .start = probabilities ? &result.start.policy : nullptr,
                                            .weights = result.correction.weights},
                                           batch);
  }
  if (choice.correction) correct(*choice.correction, result.advantages.values);
  return result;
}

TrainedColumns trained_columns(const StagedSamples& batch, const Prepared& prepared) {
  const auto values = batch.values.view<float>(), returns = batch.returns.view<float>();
  const int64_t width = prepared.advantages.per_sample;
  TrainedColumns result;
  for (int64_t sample : batch.trained) {
    if (width > 1 && !batch.executed.empty())
      for (int64_t c = 0; c < width; ++c) result.counted.push_back(c < batch.decisions_of(sample));
    const auto advantages = prepared.advantages.values.begin() + sample * width;
    result.advantages.insert(result.advantages.end(), advantages, advantages + width);
    result.values.push_back(values[sample]);
    result.returns.push_back(returns[sample]);
  }
  return result;
}

void TargetMoments::merge(const TargetMoments& other) {
  advantages.merge(other.advantages);
  returns.merge(other.returns);
  fit.merge(other.fit);
}

TargetMoments target_moments(const TrainedColumns& columns) {
  return {.advantages = masked_moments(columns.advantages, columns.counted),
          .returns = masked_moments(columns.returns, {}),
          .fit = value_fit(columns.values, columns.returns, {})};
}

Targets make_targets(const AlgorithmChoice& choice, const StagedSamples& batch, Prepared& prepared,
                     TrainedColumns& columns, ValueUnits units, const Moments& advantages) {
  const int64_t width = prepared.advantages.per_sample;
  if (choice.whitening) whiten(columns.advantages, columns.counted, advantages, *choice.whitening);
  Targets result;
  result.advantages.resize(batch.count * width);
  for (auto* column : {&result.values, &result.returns}) column->resize(batch.count);
  for (size_t i = 0; i < batch.trained.size(); ++i) {
    const int64_t sample = batch.trained[i];
    std::copy_n(columns.advantages.begin() + i * width, width, result.advantages.begin() + sample * width);
    result.values[sample] = (columns.values[i] - units.shift) / units.scale;
    result.returns[sample] = (columns.returns[i] - units.shift) / units.scale;
  }
  if (choice.correction) {
    result.old_log_probs = std::move(prepared.start.policy.log_probs);
    result.rollout_weights = std::move(prepared.correction.weights);
    result.kept = std::move(prepared.correction.kept);
  } else if (choice.per_decision && !batch.executed.empty()) {
    result.kept = executed_decisions(batch, batch.log_probs.row_size());
  }
  return result;
}

}  // namespace troupe
