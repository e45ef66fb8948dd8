#pragma once
// DeviceOptimizer: what Optimizer does, as tensor operations on the parameters of a DeviceWeights. Saved states of the
// two are the same. One thread at a time. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "models/learning/adam.h"
#include "models/torch/device_weights.h"

namespace troupe {

class DeviceOptimizer final : public OptimizerState {
 public:
  DeviceOptimizer(const TrainerConfig& config, const WeightBlock& weights, DeviceWeights& device);

  // The norm of the gradients of the parameters to train: a float64 scalar on the device, for which the host does not
  // wait.
  at::Tensor norm(bool train_policy) const;
  // Of some of the gradients, on the host.
  GradientSquares squares(ElementRange elements) const;
  // Clips the gradients, whose norm is `norm`, and applies them. When it is not finite nothing is changed.
  void apply(double norm, LearningRates rates, bool train_policy);

  void hold(ElementRange elements) override;
  AdamMoments moments() const override;
  void save_counts(std::map<std::string, double>& scalars) const override { troupe::save_counts(groups_, scalars); }
  void load(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) override;
  void load(const AdamMoments& moments, const std::map<std::string, double>& scalars) override;
  void reset() override;

 private:
  void apply_group(ParameterGroup& group, double learning_rate, double scale);

  TrainerConfig config_;
  const WeightBlock& weights_;
  DeviceWeights& device_;
  ParameterGroups groups_;
  ElementRange held_;
  at::Tensor first_, second_;  // [held_] as these gradients
  at::Tensor decayed_;         // [n] 1 where weight decay reaches, else 0; undefined without weight decay
};

}  // namespace troupe
