#pragma once
// HostForm: the form of updates on the CPU. At the sizes of control tasks the time of an update is the number of small
// tensor operations, so everything but the network's layers is plain loops. Includes LibTorch: for the sources of
// models/ only.

#include <vector>

#include "models/learning/optimizer.h"
#include "models/learning/policy_loss.h"
#include "models/learning/update_form.h"

namespace troupe {

class HostForm final : public UpdateForm {
 public:
  // `replica` is on the CPU.
  HostForm(const LearnerConfig& config, Replica& replica, const AlgorithmChoice& choice, GradientReducer reducer);

  void stage(StagedUpdate& batch) const override;
  void begin(StagedUpdate& batch) override;
  void begin_steps(const Training& training) override;
  StepReport step(const UpdateSettings& settings, SampleRange minibatch, int64_t micro_batch) override;
  void end() override {}
  void save(std::map<std::string, Array>& tensors, std::map<std::string, double>& scalars) const override;
  void load(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) override;

 protected:
  SampleEvaluation evaluate(std::span<const int64_t> samples, const NetworkOutput& said, bool probabilities) override;
  const BatchTensors& tensors() const override { return tensors_; }

 private:
  LossTotals count(SampleRange minibatch);
  bool accumulate(const UpdateSettings& settings, SampleRange range, const LossTotals& totals, LossReport& loss);
  bool accumulate_chunks(const UpdateSettings& settings, std::span<const int64_t> chunks, const LossTotals& totals,
                         LossReport& loss);
  bool add_loss(const UpdateSettings& settings, SampleRange range, const LossTotals& totals, SampleOutputs said,
                LossReport& loss);
  void backward(const UpdateSettings& settings, std::span<float> outputs, std::span<float> values);

  PolicyLoss loss_;
  Optimizer optimizer_;
  Minibatch minibatch_;
  HostEvaluation evaluation_;
  const Training* training_ = nullptr;
  BatchTensors tensors_;                             // the memory of the batch's arrays
  at::Tensor evaluated_outputs_, evaluated_values_;  // behind the last evaluate()
  std::vector<float> output_gradients_, value_gradients_, log_std_gradients_;
};

}  // namespace troupe
