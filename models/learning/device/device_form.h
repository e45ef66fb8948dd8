#pragma once
// DeviceForm: the form of updates on another device than the CPU. Batches are placed there when they are staged, and a
// step waits for the device once: for the norm of its gradients, with which the figures of its loss come along. From
// host to device go, once an update, what it computes from several samples (targets), and with every minibatch the
// indices of its samples. Includes LibTorch: for the sources of models/ only.

#include <vector>

#include "models/learning/device/device_head.h"
#include "models/learning/device/device_loss.h"
#include "models/learning/device/device_optimizer.h"
#include "models/learning/device/device_samples.h"
#include "models/learning/update_form.h"

namespace troupe {

class DeviceForm final : public UpdateForm {
 public:
  // `replica` has weights of its own on the device. Throws ConfigError naming a setting that only HostForm knows.
  DeviceForm(const LearnerConfig& config, Replica& replica, const AlgorithmChoice& choice, GradientReducer reducer);

  void stage(StagedUpdate& batch) const override;
  void begin(StagedUpdate& batch) override;
  void begin_steps(const Training& training) override;
  StepReport step(const UpdateSettings& settings, SampleRange minibatch, int64_t micro_batch) override;
  void end() override;
  void save(std::map<std::string, Array>& tensors, std::map<std::string, double>& scalars) const override;
  void load(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) override;

 protected:
  SampleEvaluation evaluate(std::span<const int64_t> samples, const NetworkOutput& said, bool probabilities) override;
  const BatchTensors& tensors() const override { return batch_->device->network; }

 private:
  LossTotals count(SampleRange minibatch);
  DeviceLossResult accumulate(const UpdateSettings& settings, SampleRange range, const LossTotals& totals);
  DeviceLossResult accumulate_chunks(const UpdateSettings& settings, std::span<const int64_t> chunks,
                                     const LossTotals& totals);
  DeviceLossInput loss_input(SampleRange range, const at::Tensor& outputs, const at::Tensor& values);
  DeviceHeadInput head_input(const at::Tensor& index, const at::Tensor& outputs) const;
  void backward(const UpdateSettings& settings, const at::Tensor& outputs, const at::Tensor& values);

  DeviceHead head_;
  DevicePolicyLoss loss_;
  DeviceOptimizer optimizer_;
  Minibatch minibatch_;
  const Training* training_ = nullptr;
  DeviceTargets targets_;
  at::Tensor log_std_;                       // [D]; undefined unless continuous
  bool changed_ = false;                     // weights, since begin()
  at::Tensor log_probs_, squared_, values_;  // behind the last evaluate()
};

}  // namespace troupe
