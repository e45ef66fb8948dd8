#include "models/learning/gradient_step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe {

GradientStep::GradientStep(Replica& replica, PolicyLoss& loss, Optimizer& optimizer)
    : replica_(replica), loss_(loss), optimizer_(optimizer), minibatch_(replica.head) {
  log_std_gradients_.resize(replica.head.continuous() ? replica.head.decisions() : 0);
}

NetworkInput GradientStep::gather(const std::vector<at::Tensor>& inputs, std::span<const int64_t> rows) {
  const c10::InferenceMode guard;
  const auto count = static_cast<int64_t>(rows.size());
  at::Tensor index = at::from_blob(const_cast<int64_t*>(rows.data()), {count}, at::TensorOptions().dtype(at::kLong));
  index = index.to(replica_.device.device());
  gathered_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<int64_t> shape = inputs[i].sizes().vec();
    shape.front() = count;
    if (!gathered_[i].defined())
      gathered_[i] = at::empty(shape, inputs[i].options());
    else
      gathered_[i].resize_(shape);
    at::index_select_out(gathered_[i], inputs[i], 0, index);
  }
  return {gathered_, {}, {}};
}

StepReport GradientStep::run(const TrainingRows& training, const UpdateSettings& settings, RowRange rows,
                             int64_t micro_batch) {
  StepReport report;
  replica_.device.zero_gradients();
  std::ranges::fill(log_std_gradients_, 0.0f);
  const LossTotals totals =
      loss_.count(rows.size(), rows.offsets, minibatch_.kept(training.batch, training.targets, rows.rows));
  bool usable = true;
  for (const RowRange& part : micro_batches(rows, micro_batch))
    usable = usable && accumulate(training, settings, part, totals, report.loss);
  report.grad_norm = std::numeric_limits<double>::quiet_NaN();
  if (!usable || !std::isfinite(report.loss.loss)) return report;
  const std::span<float> gradients = replica_.device.host_gradients();
  if (replica_.device.has(kLogStd))
    std::ranges::copy(log_std_gradients_, gradients.begin() + replica_.device.offset(kLogStd));
  report.grad_norm = optimizer_.step(gradients, settings.rates, settings.loss.train_policy);
  if (std::isfinite(report.grad_norm)) replica_.device.upload();
  return report;
}

// Forward and backward of some rows of a minibatch; false when the network's outputs are not finite.
bool GradientStep::accumulate(const TrainingRows& training, const UpdateSettings& settings, RowRange rows,
                              const LossTotals& totals, LossReport& loss) {
  const NetworkOutput output = replica_.network->forward(gather(training.inputs, rows.rows), true);
  const at::Tensor outputs = output.policy.cpu(), values = output.values.cpu();
  LossInput input = minibatch_.loss_input(training.batch, training.targets, rows);
  input.head.outputs = floats_of(outputs);
  input.head.log_std = replica_.log_std();
  input.values = floats_of(values);
  if (first_non_finite_row(input.head.outputs, input.head.rows) >= 0) return false;
  output_gradients_.resize(input.head.outputs.size());
  value_gradients_.resize(static_cast<size_t>(rows.size()));
  loss.merge(loss_.compute(input, totals, settings.loss, {output_gradients_, value_gradients_, log_std_gradients_}));
  const at::Tensor policy_gradients =
      settings.loss.train_policy ? on_device(output_gradients_, replica_.head.outputs()) : at::Tensor();
  replica_.network->backward(policy_gradients, on_device(value_gradients_, 1));
  return true;
}

at::Tensor GradientStep::on_device(std::span<float> values, int64_t columns) const {
  const auto rows = static_cast<int64_t>(values.size()) / columns;
  return at::from_blob(values.data(), {rows, columns}, at::TensorOptions().dtype(at::kFloat))
      .to(replica_.device.device());
}

}  // namespace troupe
