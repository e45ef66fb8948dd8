#pragma once
// One optimizer step on a minibatch: forward and backward of its micro-batches through the network, the loss, the optimizer. Used by
// the learner's thread. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/learning/minibatch.h"
#include "models/learning/optimizer.h"
#include "models/learning/policy_loss.h"
#include "models/learning/targets.h"
#include "models/learning/update_settings.h"
#include "models/networks/replica.h"

namespace troupe {

// A batch, the network's inputs for it on the device, and what it is trained towards.
struct TrainingRows {
  const StagedRows& batch;
  const std::vector<at::Tensor>& inputs;  // each [R, ...]
  const Targets& targets;
};

struct StepReport {
  LossReport loss;
  double grad_norm = 0.0;  // not finite: the step was skipped, nothing has changed
};

class GradientStep {
 public:
  // `replica`, `loss` and `optimizer` must outlive this.
  GradientStep(Replica& replica, PolicyLoss& loss, Optimizer& optimizer);

  // Trains on one minibatch in parts of at most `micro_batch` rows (0 = whole).
  StepReport run(const TrainingRows& training, const UpdateSettings& settings, RowRange rows, int64_t micro_batch);

  // Some rows of the inputs, for a forward; valid until the next call.
  NetworkInput gather(const std::vector<at::Tensor>& inputs, std::span<const int64_t> rows);

 private:
  bool accumulate(const TrainingRows& training, const UpdateSettings& settings, RowRange rows, const LossTotals& totals,
                  LossReport& loss);
  at::Tensor on_device(std::span<float> values, int64_t columns) const;

  Replica& replica_;
  PolicyLoss& loss_;
  Optimizer& optimizer_;
  Minibatch minibatch_;
  std::vector<at::Tensor> gathered_;
  std::vector<float> output_gradients_, value_gradients_, log_std_gradients_;
};

}  // namespace troupe
