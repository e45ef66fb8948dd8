#include "models/learning/gradient_step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe {

namespace {

// Rows `positions` of [B, width].
std::vector<float> pick(std::span<const float> from, std::span<const int64_t> positions, int64_t width) {
  std::vector<float> result;
  result.reserve(positions.size() * static_cast<size_t>(width));
  for (const int64_t position : positions)
    result.insert(result.end(), from.begin() + position * width, from.begin() + (position + 1) * width);
  return result;
}

// [count, width] with `rows` at `positions` and 0 everywhere else.
std::vector<float> spread(std::span<const float> rows, std::span<const int64_t> positions, int64_t count,
                          int64_t width) {
  std::vector<float> result(static_cast<size_t>(count * width), 0.0f);
  const float* source = rows.data();
  for (const int64_t position : positions) {
    std::copy_n(source, width, result.begin() + position * width);
    source += width;
  }
  return result;
}

}  // namespace

GradientStep::GradientStep(Replica& replica, PolicyLoss& loss, Optimizer& optimizer)
    : replica_(replica),
      loss_(loss),
      optimizer_(optimizer),
      minibatch_(replica.head),
      gather_(replica.device.device()),
      chunk_forward_(replica, gather_) {
  log_std_gradients_.resize(replica.head.continuous() ? replica.head.decisions() : 0);
}

NetworkInput GradientStep::gather(const std::vector<at::Tensor>& inputs, std::span<const int64_t> rows) {
  return {gather_.gather(inputs, rows), {}, {}};
}

StepReport GradientStep::run(const TrainingRows& training, const UpdateSettings& settings, RowRange minibatch,
                             int64_t micro_batch) {
  StepReport report;
  replica_.device.zero_gradients();
  std::ranges::fill(log_std_gradients_, 0.0f);
  const LossTotals totals = count(training, minibatch);
  const int64_t chunk = training.chunks.steps;
  if (chunk > 0 && micro_batch > 0) micro_batch = std::max<int64_t>(1, micro_batch / chunk);
  bool usable = true;
  for (const RowRange& part : micro_batches(minibatch, micro_batch))
    usable = usable && (chunk > 0 ? accumulate_chunks(training, settings, part.rows, totals, report.loss)
                                  : accumulate(training, settings, part, totals, report.loss));
  report.grad_norm = std::numeric_limits<double>::quiet_NaN();
  if (!usable || !std::isfinite(report.loss.loss)) return report;
  const std::span<float> gradients = replica_.device.host_gradients();
  if (replica_.device.has(kLogStd))
    std::ranges::copy(log_std_gradients_, gradients.begin() + replica_.device.offset(kLogStd));
  report.grad_norm = optimizer_.step(gradients, settings.rates, settings.loss.train_policy);
  if (std::isfinite(report.grad_norm)) replica_.device.upload();
  return report;
}

LossTotals GradientStep::count(const TrainingRows& training, RowRange minibatch) {
  TrainedRows trained;
  if (training.chunks.steps > 0) {
    trained = trained_rows(training.chunks, minibatch.rows, training.is_sample);
    minibatch = {trained.rows, {}};
  }
  return loss_.count(minibatch.size(), minibatch.offsets,
                     minibatch_.kept(training.batch, training.targets, minibatch.rows));
}

// Forward and backward of some rows of a minibatch; false when the network's outputs are not finite.
bool GradientStep::accumulate(const TrainingRows& training, const UpdateSettings& settings, RowRange rows,
                              const LossTotals& totals, LossReport& loss) {
  const NetworkOutput output = replica_.network->forward(gather(training.inputs, rows.rows), true);
  const at::Tensor outputs = output.policy.cpu(), values = output.values.cpu();
  if (!add_loss(training, settings, rows, totals, {floats_of(outputs), floats_of(values)}, loss)) return false;
  backward(settings, output_gradients_, value_gradients_);
  return true;
}

// The same with some chunks of a minibatch.
bool GradientStep::accumulate_chunks(const TrainingRows& training, const UpdateSettings& settings,
                                     std::span<const int64_t> chunks, const LossTotals& totals, LossReport& loss) {
  const TrainedRows trained = trained_rows(training.chunks, chunks, training.is_sample);
  const NetworkOutput output = chunk_forward_.run_trained(training.inputs, training.chunks, chunks);
  const at::Tensor all_outputs = output.policy.cpu(), all_values = output.values.cpu();
  const int64_t rows = all_outputs.size(0), width = replica_.head.outputs();
  const std::vector<float> outputs = pick(floats_of(all_outputs), trained.positions, width);
  const std::vector<float> values = pick(floats_of(all_values), trained.positions, 1);
  if (!add_loss(training, settings, {trained.rows, {}}, totals, {outputs, values}, loss)) return false;
  std::vector<float> output_gradients = spread(output_gradients_, trained.positions, rows, width);
  std::vector<float> value_gradients = spread(value_gradients_, trained.positions, rows, 1);
  backward(settings, output_gradients, value_gradients);
  return true;
}

// The loss of some rows and, in output_gradients_ and value_gradients_, its gradients.
bool GradientStep::add_loss(const TrainingRows& training, const UpdateSettings& settings, RowRange rows,
                            const LossTotals& totals, RowOutputs said, LossReport& loss) {
  LossInput input = minibatch_.loss_input(training.batch, training.targets, rows);
  input.head.outputs = said.outputs;
  input.head.log_std = replica_.log_std();
  input.values = said.values;
  if (first_non_finite_row(input.head.outputs, input.head.rows) >= 0) return false;
  output_gradients_.resize(input.head.outputs.size());
  value_gradients_.resize(static_cast<size_t>(rows.size()));
  loss.merge(loss_.compute(input, totals, settings.loss, {output_gradients_, value_gradients_, log_std_gradients_}));
  return true;
}

void GradientStep::backward(const UpdateSettings& settings, std::span<float> outputs, std::span<float> values) {
  const at::Tensor policy_gradients =
      settings.loss.train_policy ? on_device(outputs, replica_.head.outputs()) : at::Tensor();
  replica_.network->backward(policy_gradients, on_device(values, 1));
}

at::Tensor GradientStep::on_device(std::span<float> values, int64_t columns) const {
  const auto rows = static_cast<int64_t>(values.size()) / columns;
  return at::from_blob(values.data(), {rows, columns}, at::TensorOptions().dtype(at::kFloat))
      .to(replica_.device.device());
}

}  // namespace troupe
