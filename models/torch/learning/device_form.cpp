#include "models/torch/learning/device_form.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>
#include <utility>

#include "algorithms/losses/torch/upload.h"

namespace troupe {

namespace {

at::Tensor pick(const at::Tensor& samples, const at::Tensor& index) {
  return samples.defined() ? samples.index_select(0, index) : samples;
}

}  // namespace

DeviceForm::DeviceForm(const LearnerConfig& config, Replica& replica, const AlgorithmChoice& choice)
    : UpdateForm(config.trainer, replica, choice),
      head_(replica.head, replica.device.device()),
      loss_(choice, config.algorithm.value_coef, longest_sequence(config, choice, replica.head), head_),
      optimizer_(config.trainer, replica.weights, replica.device),
      targets_(shards()) {}

void DeviceForm::begin_batch(const SampleScalings& scalings) {
  const at::NoGradGuard guard;
  changed_ = false;
  scale_on_device(replica_.encoder, scalings, scalings.of_samples, batch().device->network.inputs);
  scale_on_device(replica_.encoder, scalings, scalings.of_bootstraps, batch().device->network.bootstrap_inputs);
  if (!replica_.head.continuous()) return;
  log_std_ = replica_.device.has(kLogStd) ? replica_.device.parameter(kLogStd)
                                          : upload(replica_.log_std(), replica_.device.device());
}

void DeviceForm::place_training() {
  const at::NoGradGuard guard;
  targets_[shard()] = place_targets(training().targets, batch().staged.count, replica_.device.device());
  if (!replica_.config.normalize_returns) return;
  const LinearTensors& head = replica_.layout.value_head;  // which has been rescaled
  for (const std::string& name : {head.weight, head.bias}) replica_.device.upload(name);
}

SampleEvaluation DeviceForm::evaluate(std::span<const int64_t> samples, const NetworkOutput& said, bool probabilities) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const at::NoGradGuard guard;
  const at::Tensor index = index_tensor(samples, replica_.device.device());
  const auto evaluation = head_.evaluate(head_input(index, said.policy), pick(batch().device->actions, index));
  const at::Tensor lost = said.policy.isfinite().all(1, /*keepdim=*/true).logical_not();
  log_probs_ = on_host(evaluation.log_probs.masked_fill(lost, kNaN));
  values_ = on_host(said.values);
  SampleEvaluation result = {floats_of(log_probs_), {}, floats_of(values_)};
  if (!probabilities) return result;
  squared_ = on_host(head_.sum_squared_probabilities(evaluation).masked_fill(lost, kNaN));
  result.sum_pi_squared = floats_of(squared_);
  return result;
}

std::optional<DeviceForm::OutputGradients> DeviceForm::add_loss(const UpdateSettings& settings, SampleRange range,
                                                                const LossTotals& totals, const at::Tensor& outputs,
                                                                const at::Tensor& values) {
  DeviceLossResult& result =
      parts_.emplace_back(Part{shard(), loss_.compute(loss_input(range, outputs, values), totals, settings.loss)}).loss;
  if (result.log_std.defined() && replica_.device.has(kLogStd)) replica_.device.gradient(kLogStd).add_(result.log_std);
  return OutputGradients{std::exchange(result.outputs, {}), std::exchange(result.values, {}).unsqueeze(1)};
}

std::vector<at::Tensor> DeviceForm::part_figures() const {
  std::vector<at::Tensor> result;
  for (const Part& part : parts_) result.push_back(part.loss.figures);
  return result;
}

// By shard, from the figures of all parts.
std::vector<LossReport> DeviceForm::reports_of(std::span<const double> figures, const UpdateSettings& settings,
                                               const LossTotals& totals) const {
  std::vector<LossReport> result(shards());
  for (size_t i = 0; i < parts_.size(); ++i)
    result[parts_[i].shard].merge(
        loss_.report(parts_[i].loss, figures.subspan(i * DevicePolicyLoss::kFigures, DevicePolicyLoss::kFigures),
                     totals, settings.loss));
  return result;
}

StepReport DeviceForm::train(const UpdateSettings& settings, const LossTotals& totals) {
  std::vector<at::Tensor> figures = part_figures();
  figures.push_back(optimizer_.norm(settings.loss.train_policy).view({1}));
  const at::Tensor host = on_host(at::cat(figures));
  const std::span<const double> said(host.const_data_ptr<double>(), static_cast<size_t>(host.numel()));
  StepReport report = {merged(reports_of(said, settings, totals)), 0.0};
  report.grad_norm = std::isfinite(report.loss.loss) ? said.back() : std::numeric_limits<double>::quiet_NaN();
  apply_gradients(report.grad_norm, settings);
  return report;
}

std::vector<LossReport> DeviceForm::loss_reports(const UpdateSettings& settings, const LossTotals& totals) {
  if (parts_.empty()) return std::vector<LossReport>(shards());
  const at::Tensor host = on_host(at::cat(part_figures()));
  return reports_of({host.const_data_ptr<double>(), static_cast<size_t>(host.numel())}, settings, totals);
}

GradientSquares DeviceForm::squares(ElementRange elements) { return optimizer_.squares(elements); }

double DeviceForm::train_with(const UpdateSettings& settings, const GradientSquares& squares) {
  const double norm = std::sqrt(squares.value + (settings.loss.train_policy ? squares.policy : 0.0));
  apply_gradients(norm, settings);
  return norm;
}

void DeviceForm::set_parameters(ElementRange elements, const Array& values) {
  UpdateForm::set_parameters(elements, values);
  changed_ = true;
}

void DeviceForm::apply_gradients(double norm, const UpdateSettings& settings) {
  optimizer_.apply(norm, settings.rates, settings.loss.train_policy);
  changed_ = changed_ || std::isfinite(norm);
}

void DeviceForm::end() {
  if (changed_) replica_.device.download();
}

DeviceHeadInput DeviceForm::head_input(const at::Tensor& index, const at::Tensor& outputs) const {
  const DeviceSamples& samples = *batch().device;
  return {outputs, log_std_, pick(samples.action_mask, index), pick(samples.executed, index)};
}

DeviceLossInput DeviceForm::loss_input(SampleRange range, const at::Tensor& outputs, const at::Tensor& values) {
  const at::Tensor index = index_tensor(range.indices, replica_.device.device());
  const DeviceSamples& all = *batch().device;
  const DeviceTargets& targets = targets_[shard()];
  DeviceLossInput result;
  result.head = head_input(index, outputs);
  result.actions = pick(all.actions, index);
  result.behaviour_log_probs = pick(all.log_probs, index);
  result.old_log_probs =
      targets.old_log_probs.defined() ? pick(targets.old_log_probs, index) : result.behaviour_log_probs;
  result.advantages = pick(targets.advantages, index);
  result.values = values.reshape({-1});
  result.old_values = pick(targets.values, index);
  result.returns = pick(targets.returns, index);
  result.rollout_weights = pick(targets.rollout_weights, index);
  result.kept = pick(targets.kept, index);
  result.host_kept = minibatch_.kept(batch().staged, training().targets, range.indices);
  result.offsets = range.offsets;
  result.lags = minibatch_.lags(batch().staged, range.indices);
  return result;
}

}  // namespace troupe
