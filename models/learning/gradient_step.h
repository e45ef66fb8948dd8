#pragma once
// One optimizer step on a minibatch: forward and backward of its micro-batches through the network, the loss, the optimizer. Used by
// the learner's thread. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/learning/chunk_forward.h"
#include "models/learning/chunks.h"
#include "models/learning/minibatch.h"
#include "models/learning/optimizer.h"
#include "models/learning/policy_loss.h"
#include "models/learning/row_gather.h"
#include "models/learning/start.h"
#include "models/learning/targets.h"
#include "models/learning/update_settings.h"
#include "models/networks/replica.h"

namespace troupe {

// A batch, the network's inputs for it on the device, and what it is trained towards.
struct TrainingRows {
  const StagedRows& batch;
  const Chunks& chunks;                   // none without recurrent state
  const std::vector<at::Tensor>& inputs;  // each [R, ...]
  const Targets& targets;
  std::span<const uint8_t> is_sample;  // [R]; looked at only with chunks
};

struct StepReport {
  LossReport loss;
  double grad_norm = 0.0;  // not finite: the step was skipped, nothing has changed
};

class GradientStep {
 public:
  // `replica`, `loss` and `optimizer` must outlive this.
  GradientStep(Replica& replica, PolicyLoss& loss, Optimizer& optimizer);

  // Trains on one minibatch in parts of at most `micro_batch` rows (0 = whole). With chunks, `minibatch` is the indices
  // of some, each of which has something to train on.
  StepReport run(const TrainingRows& training, const UpdateSettings& settings, RowRange minibatch, int64_t micro_batch);

  // Some rows of the inputs, for a forward; valid until the next call.
  NetworkInput gather(const std::vector<at::Tensor>& inputs, std::span<const int64_t> rows);
  ChunkForward& chunk_forward() { return chunk_forward_; }

 private:
  LossTotals count(const TrainingRows& training, RowRange minibatch);
  bool accumulate(const TrainingRows& training, const UpdateSettings& settings, RowRange rows, const LossTotals& totals,
                  LossReport& loss);
  bool accumulate_chunks(const TrainingRows& training, const UpdateSettings& settings, std::span<const int64_t> chunks,
                         const LossTotals& totals, LossReport& loss);
  bool add_loss(const TrainingRows& training, const UpdateSettings& settings, RowRange rows, const LossTotals& totals,
                RowOutputs said, LossReport& loss);
  void backward(const UpdateSettings& settings, std::span<float> outputs, std::span<float> values);
  at::Tensor on_device(std::span<float> values, int64_t columns) const;

  Replica& replica_;
  PolicyLoss& loss_;
  Optimizer& optimizer_;
  Minibatch minibatch_;
  RowGather gather_;
  ChunkForward chunk_forward_;
  std::vector<float> output_gradients_, value_gradients_, log_std_gradients_;
};

}  // namespace troupe
