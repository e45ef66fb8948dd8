#pragma once
// HostForm: the form of updates on the CPU. At the sizes of control tasks the time of an update is proportional to the
// number of small tensor operations, so everything but the network's layers is plain loops. Includes LibTorch: for the
// sources of models/ only.

#include <vector>

#include "models/learning/optimizer.h"
#include "models/learning/policy_loss.h"
#include "models/torch/learning/update_form.h"

namespace troupe {

class HostForm final : public UpdateForm {
 public:
  // `replica` is on the CPU.
  HostForm(const LearnerConfig& config, Replica& replica, const AlgorithmChoice& choice);

  void end() override {}
  OptimizerState& optimizer() override { return optimizer_; }
  GradientSquares squares(ElementRange elements) override;

 protected:
  void begin_batch(const SampleScalings& scalings) override;
  SampleEvaluation evaluate(std::span<const int64_t> samples, const NetworkOutput& said, bool probabilities) override;
  const BatchTensors& tensors() const override { return tensors_[shard()]; }
  void begin_losses() override;
  std::optional<OutputGradients> add_loss(const UpdateSettings& settings, SampleRange range, const LossTotals& totals,
                                          const at::Tensor& outputs, const at::Tensor& values) override;
  StepReport train(const UpdateSettings& settings, const LossTotals& totals) override;
  std::vector<LossReport> loss_reports(const UpdateSettings& /*settings*/, const LossTotals& /*totals*/) override {
    return losses_;
  }
  double train_with(const UpdateSettings& settings, const GradientSquares& squares) override;

 private:
  std::span<float> log_std_gradients();

  PolicyLoss loss_;
  Optimizer optimizer_;
  HostEvaluation evaluation_;
  std::vector<BatchTensors> tensors_;                // by shard: the memory of the batch's arrays
  at::Tensor evaluated_outputs_, evaluated_values_;  // behind the last evaluate()
  std::vector<LossReport> losses_;                   // by shard: of the parts of a step
  bool finite_outputs_ = true;                       // of all parts of a step
  std::vector<float> output_gradients_, value_gradients_;
  std::vector<float> unused_log_std_gradients_;  // of a log_std that is no parameter
};

}  // namespace troupe
