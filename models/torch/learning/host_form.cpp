#include "models/torch/learning/host_form.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <utility>

namespace troupe {

namespace {

// The same memory as [B, columns].
at::Tensor matrix_of(std::span<float> values, int64_t columns) {
  const auto samples = static_cast<int64_t>(values.size()) / columns;
  return at::from_blob(values.data(), {samples, columns}, at::TensorOptions().dtype(at::kFloat));
}

}  // namespace

HostForm::HostForm(const LearnerConfig& config, Replica& replica, const AlgorithmChoice& choice)
    : UpdateForm(config.trainer, replica, choice),
      loss_(choice, config.algorithm.value_coef, longest_sequence(config, choice, replica.head), replica.head),
      optimizer_(config.trainer, replica.weights),
      evaluation_(replica.head),
      tensors_(shards()) {}

void HostForm::begin_batch(const SampleScalings& scalings) {
  StagedSamples& samples = batch().staged;
  BatchTensors& tensors = tensors_[shard()];
  scale_samples(replica_.encoder, scalings, scalings.of_samples, samples.inputs);
  scale_samples(replica_.encoder, scalings, scalings.of_bootstraps, samples.bootstrap_inputs);
  tensors = {replica_.tensors_of(samples.inputs), replica_.tensors_of(samples.bootstrap_inputs), {}, {}, {}};
  if (replica_.layout.autoregressive) tensors.actions = tensor_view(samples.actions).flatten(1);
  if (batch().chunks.steps == 0) return;
  tensors.states = tensor_view(batch().chunks.states);
  tensors.starts = tensor_view(batch().chunks.starts);
}

SampleEvaluation HostForm::evaluate(std::span<const int64_t> samples, const NetworkOutput& said, bool probabilities) {
  evaluated_outputs_ = said.policy;
  evaluated_values_ = said.values;
  return evaluation_.evaluate(batch().staged, samples, {floats_of(evaluated_outputs_), floats_of(evaluated_values_)},
                              replica_.log_std(), probabilities);
}

void HostForm::begin_losses() {
  losses_.assign(shards(), {});
  finite_outputs_ = true;
}

std::optional<HostForm::OutputGradients> HostForm::add_loss(const UpdateSettings& settings, SampleRange range,
                                                            const LossTotals& totals, const at::Tensor& outputs,
                                                            const at::Tensor& values) {
  LossInput input = minibatch_.loss_input(batch().staged, training().targets, range);
  input.head.outputs = floats_of(outputs);
  input.head.log_std = replica_.log_std();
  input.values = floats_of(values);
  finite_outputs_ = first_non_finite_row(input.head.outputs, input.head.samples) < 0;
  if (!finite_outputs_) return {};
  output_gradients_.resize(input.head.outputs.size());
  value_gradients_.resize(static_cast<size_t>(range.size()));
  losses_[shard()].merge(
      loss_.compute(input, totals, settings.loss, {output_gradients_, value_gradients_, log_std_gradients()}));
  return OutputGradients{matrix_of(output_gradients_, replica_.head.outputs()), matrix_of(value_gradients_, 1)};
}

// The gradient of log_std, to which the loss adds. If log_std is not a parameter but follows a schedule: memory whose
// contents are not used.
std::span<float> HostForm::log_std_gradients() {
  if (!replica_.head.continuous()) return {};
  const auto size = static_cast<size_t>(replica_.head.decisions());
  if (!replica_.device.has(kLogStd)) {
    unused_log_std_gradients_.resize(size);
    return unused_log_std_gradients_;
  }
  at::Tensor gradient = replica_.device.gradient(kLogStd);
  return {gradient.mutable_data_ptr<float>(), size};
}

StepReport HostForm::train(const UpdateSettings& settings, const LossTotals& /*totals*/) {
  StepReport report = {merged(losses_), std::numeric_limits<double>::quiet_NaN()};
  if (finite_outputs_ && std::isfinite(report.loss.loss))
    report.grad_norm =
        optimizer_.step(floats_of(replica_.device.gradients()), settings.rates, settings.loss.train_policy);
  return report;
}

GradientSquares HostForm::squares(ElementRange elements) {
  const auto gradients = floats_of(replica_.device.gradients()).subspan(elements.begin, elements.size());
  return optimizer_.squares(gradients, elements.begin);
}

double HostForm::train_with(const UpdateSettings& settings, const GradientSquares& squares) {
  return optimizer_.step(floats_of(replica_.device.gradients()), settings.rates, settings.loss.train_policy, squares);
}

}  // namespace troupe
