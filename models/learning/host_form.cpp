#include "models/learning/host_form.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "models/learning/normalizers.h"

namespace troupe {

namespace {

// Samples `positions` of [B, width].
std::vector<float> pick(std::span<const float> from, std::span<const int64_t> positions, int64_t width) {
  std::vector<float> result;
  result.reserve(positions.size() * static_cast<size_t>(width));
  for (const int64_t position : positions)
    result.insert(result.end(), from.begin() + position * width, from.begin() + (position + 1) * width);
  return result;
}

// [count, width] with the numbers of `samples` at `positions` and 0 everywhere else.
std::vector<float> spread(std::span<const float> samples, std::span<const int64_t> positions, int64_t count,
                          int64_t width) {
  std::vector<float> result(static_cast<size_t>(count * width), 0.0f);
  const float* source = samples.data();
  for (const int64_t position : positions) {
    std::copy_n(source, width, result.begin() + position * width);
    source += width;
  }
  return result;
}

// The same memory as [B, columns].
at::Tensor matrix_of(std::span<float> values, int64_t columns) {
  const auto samples = static_cast<int64_t>(values.size()) / columns;
  return at::from_blob(values.data(), {samples, columns}, at::TensorOptions().dtype(at::kFloat));
}

}  // namespace

HostForm::HostForm(const LearnerConfig& config, Replica& replica, const AlgorithmChoice& choice,
                   GradientReducer reducer)
    : UpdateForm(replica, std::move(reducer)),
      loss_(choice, config.algorithm.value_coef, longest_sequence(config, choice, replica.head), replica.head),
      optimizer_(config.trainer, replica.weights),
      minibatch_(replica.head),
      evaluation_(replica.head) {
  log_std_gradients_.resize(replica.head.continuous() ? replica.head.decisions() : 0);
}

void HostForm::stage(StagedUpdate&) const {}  // the network reads the arrays where they are

void HostForm::begin(StagedUpdate& batch) {
  batch_ = &batch;
  StagedSamples& samples = batch.staged;
  absorb_observations(samples, replica_.encoder, replica_.weights);
  const FeatureScaling scaling = replica_.scaling();
  replica_.encoder.scale(scaling, samples.inputs);
  replica_.encoder.scale(scaling, samples.bootstrap_inputs);
  tensors_ = {replica_.tensors_of(samples.inputs), replica_.tensors_of(samples.bootstrap_inputs), {}, {}};
  if (batch.chunks.steps == 0) return;
  tensors_.states = tensor_view(batch.chunks.states);
  tensors_.starts = tensor_view(batch.chunks.starts);
}

void HostForm::begin_steps(const Training& training) { training_ = &training; }

SampleEvaluation HostForm::evaluate(std::span<const int64_t> samples, const NetworkOutput& said, bool probabilities) {
  evaluated_outputs_ = said.policy;
  evaluated_values_ = said.values;
  return evaluation_.evaluate(batch_->staged, samples, {floats_of(evaluated_outputs_), floats_of(evaluated_values_)},
                              replica_.log_std(), probabilities);
}

StepReport HostForm::step(const UpdateSettings& settings, SampleRange minibatch, int64_t micro_batch) {
  StepReport report;
  replica_.device.zero_gradients();
  std::ranges::fill(log_std_gradients_, 0.0f);
  const LossTotals totals = count(minibatch);
  const int64_t chunk = batch_->chunks.steps;
  bool usable = true;
  for (const SampleRange& part : micro_batches(minibatch, chunks_of(micro_batch, chunk)))
    usable = usable && (chunk > 0 ? accumulate_chunks(settings, part.indices, totals, report.loss)
                                  : accumulate(settings, part, totals, report.loss));
  usable = usable && std::isfinite(report.loss.loss);
  report.grad_norm = std::numeric_limits<double>::quiet_NaN();
  if (!usable && !reducer_) return report;
  at::Tensor& all = replica_.device.gradients();
  const std::span<float> gradients(all.mutable_data_ptr<float>(), static_cast<size_t>(all.numel()));
  if (replica_.device.has(kLogStd))
    std::ranges::copy(log_std_gradients_, gradients.begin() + replica_.device.offset(kLogStd));
  if (!usable) all.fill_(std::numeric_limits<float>::quiet_NaN());
  if (reducer_) reducer_(all);
  if (usable) report.grad_norm = optimizer_.step(gradients, settings.rates, settings.loss.train_policy);
  return report;
}

LossTotals HostForm::count(SampleRange minibatch) {
  TrainedSamples trained;
  if (batch_->chunks.steps > 0) {
    trained = trained_samples(batch_->chunks, minibatch.indices, training_->is_trained);
    minibatch = {trained.samples, {}};
  }
  return loss_.count(minibatch.size(), minibatch.offsets,
                     minibatch_.kept(batch_->staged, training_->targets, minibatch.indices));
}

// Forward and backward of some samples of a minibatch; false when the network's outputs are not finite.
bool HostForm::accumulate(const UpdateSettings& settings, SampleRange range, const LossTotals& totals,
                          LossReport& loss) {
  const NetworkInput input = {gather_.gather(tensors_.inputs, range.indices), {}, {}};
  const NetworkOutput output = replica_.network->forward(input, true);
  if (!add_loss(settings, range, totals, {floats_of(output.policy), floats_of(output.values)}, loss)) return false;
  backward(settings, output_gradients_, value_gradients_);
  return true;
}

// The same with some chunks of a minibatch.
bool HostForm::accumulate_chunks(const UpdateSettings& settings, std::span<const int64_t> chunks,
                                 const LossTotals& totals, LossReport& loss) {
  const TrainedSamples trained = trained_samples(batch_->chunks, chunks, training_->is_trained);
  const NetworkOutput output = chunk_forward_.run_trained(tensors_, batch_->chunks, chunks);
  const int64_t samples = output.policy.size(0), width = replica_.head.outputs();
  const std::vector<float> outputs = pick(floats_of(output.policy), trained.positions, width);
  const std::vector<float> values = pick(floats_of(output.values), trained.positions, 1);
  if (!add_loss(settings, {trained.samples, {}}, totals, {outputs, values}, loss)) return false;
  std::vector<float> output_gradients = spread(output_gradients_, trained.positions, samples, width);
  std::vector<float> value_gradients = spread(value_gradients_, trained.positions, samples, 1);
  backward(settings, output_gradients, value_gradients);
  return true;
}

// The loss of some samples and, in output_gradients_ and value_gradients_, its gradients.
bool HostForm::add_loss(const UpdateSettings& settings, SampleRange range, const LossTotals& totals, SampleOutputs said,
                        LossReport& loss) {
  LossInput input = minibatch_.loss_input(batch_->staged, training_->targets, range);
  input.head.outputs = said.outputs;
  input.head.log_std = replica_.log_std();
  input.values = said.values;
  if (first_non_finite_row(input.head.outputs, input.head.samples) >= 0) return false;
  output_gradients_.resize(input.head.outputs.size());
  value_gradients_.resize(static_cast<size_t>(range.size()));
  loss.merge(loss_.compute(input, totals, settings.loss, {output_gradients_, value_gradients_, log_std_gradients_}));
  return true;
}

void HostForm::backward(const UpdateSettings& settings, std::span<float> outputs, std::span<float> values) {
  const at::Tensor policy_gradients =
      settings.loss.train_policy ? matrix_of(outputs, replica_.head.outputs()) : at::Tensor();
  replica_.network->backward(policy_gradients, matrix_of(values, 1));
}

void HostForm::save(std::map<std::string, Array>& tensors, std::map<std::string, double>& scalars) const {
  optimizer_.save(tensors, scalars);
}

void HostForm::load(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) {
  optimizer_.load(tensors, scalars);
}

}  // namespace troupe
