#pragma once
// DeviceForm: the form of updates on devices other than the CPU. Batches are copied to the device when they are staged.
// A step waits for the device once, for the norm of its gradients and the figures of its loss in one copy. The host
// sends the training targets once per update, and the indices of the samples with every minibatch. Includes LibTorch:
// for the sources of models/ only.

#include <span>
#include <vector>

#include "models/torch/learning/device_head.h"
#include "models/torch/learning/device_loss.h"
#include "models/torch/learning/device_optimizer.h"
#include "models/torch/learning/device_samples.h"
#include "models/torch/learning/update_form.h"

namespace troupe {

class DeviceForm final : public UpdateForm {
 public:
  // `replica` has weights of its own on the device. Throws ConfigError naming a setting that only HostForm supports.
  DeviceForm(const LearnerConfig& config, Replica& replica, const AlgorithmChoice& choice);

  void end() override;
  OptimizerState& optimizer() override { return optimizer_; }
  GradientSquares squares(ElementRange elements) override;
  void set_parameters(ElementRange elements, const Array& values) override;

 protected:
  void begin_batch(const SampleScalings& scalings) override;
  void place_training() override;
  SampleEvaluation evaluate(std::span<const int64_t> samples, const NetworkOutput& said, bool probabilities) override;
  const BatchTensors& tensors() const override { return batch().device->network; }
  void begin_losses() override { parts_.clear(); }
  std::optional<OutputGradients> add_loss(const UpdateSettings& settings, SampleRange range, const LossTotals& totals,
                                          const at::Tensor& outputs, const at::Tensor& values) override;
  StepReport train(const UpdateSettings& settings, const LossTotals& totals) override;
  std::vector<LossReport> loss_reports(const UpdateSettings& settings, const LossTotals& totals) override;
  double train_with(const UpdateSettings& settings, const GradientSquares& squares) override;

 private:
  std::vector<at::Tensor> part_figures() const;
  std::vector<LossReport> reports_of(std::span<const double> figures, const UpdateSettings& settings,
                                     const LossTotals& totals) const;
  void apply_gradients(double norm, const UpdateSettings& settings);
  DeviceLossInput loss_input(SampleRange range, const at::Tensor& outputs, const at::Tensor& values);
  DeviceHeadInput head_input(const at::Tensor& index, const at::Tensor& outputs) const;

  DeviceHead head_;
  DevicePolicyLoss loss_;
  DeviceOptimizer optimizer_;
  std::vector<DeviceTargets> targets_;  // by shard
  at::Tensor log_std_;                  // [D]; undefined unless continuous
  bool changed_ = false;                // weights, since begin()
  struct Part {
    size_t shard;
    DeviceLossResult loss;
  };
  std::vector<Part> parts_;                  // of a step
  at::Tensor log_probs_, squared_, values_;  // behind the last evaluate()
};

}  // namespace troupe
