#pragma once
// UpdateForm: the part of an update that depends on where the data is. HostForm computes it with plain loops on host
// arrays around the network's tensor operations, DeviceForm with tensor operations alone. Both compute the same up to
// rounding, and their saved states are the same. Includes LibTorch: for the sources of models/ only.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "models/learning/adam.h"
#include "models/learning/gradient_reducer.h"
#include "models/learning/minibatch.h"
#include "models/learning/objective.h"
#include "models/learning/scaling_history.h"
#include "models/learning/start.h"
#include "models/learning/targets.h"
#include "models/learning/update_settings.h"
#include "models/torch/learning/chunk_forward.h"
#include "models/torch/learning/staged_update.h"
#include "models/torch/replica.h"

namespace troupe {

// What a minibatch has on this rank, and what its loss is divided by: what it has on all of them.
struct StepTotals {
  LossTotals own, all;
};

// The training targets of a batch.
struct Training {
  const Targets& targets;
  std::span<const uint8_t> is_trained;  // [B]; looked at only with chunks
};

class UpdateForm {
 public:
  // Both references must outlive this.
  UpdateForm(Replica& replica, const AlgorithmChoice& choice, GradientReducer& reducer);
  virtual ~UpdateForm() = default;
  // Its functions refer to it.
  UpdateForm(const UpdateForm&) = delete;
  UpdateForm& operator=(const UpdateForm&) = delete;

  // An update calls begin(), begin_steps(), a step for every minibatch and end(), or begin() alone when nothing is left
  // to train on. begin() normalises the inputs of the batch. `batch` must outlive the update.
  virtual void begin(StagedUpdate& batch, const SampleScalings& scalings) = 0;
  // The network with its current weights, for the batch of begin(). Neither may change while the result is used.
  CurrentNetwork current_network();
  // From here on the update uses the host weights that changed since begin(). `training` must outlive the steps.
  virtual void begin_steps(const Training& training);
  // What a minibatch adds to the totals that the means of its loss divide by.
  LossTotals count(SampleRange minibatch);
  // The optimizer step of one minibatch, in parts of at most `micro_batch` samples (0 = whole), or one longer sequence:
  // begin_step(), which returns their number, backward() for each of them, and apply(). A rank whose minibatch is empty
  // takes part with gradients of 0. `clock` is marked as Objective::backward() says. With chunks, `minibatch` is the
  // indices of some, each of which has something to train on, and a part is whole chunks. `settings` and `totals` must
  // outlive the step.
  size_t begin_step(const UpdateSettings& settings, SampleRange minibatch, const StepTotals& totals,
                    int64_t micro_batch);
  void backward(size_t part, StageClock& clock);
  StepReport apply();
  // Copies the trained weights to the host.
  virtual void end() = 0;

  virtual OptimizerState& optimizer() = 0;

 protected:
  // Of a loss with respect to the network's outputs.
  struct OutputGradients {
    at::Tensor policy;  // [B, P]
    at::Tensor values;  // [B, 1]
  };

  // What the policy computes for the stored actions of some samples of the batch from the network's outputs for them.
  virtual SampleEvaluation evaluate(std::span<const int64_t> samples, const NetworkOutput& said,
                                    bool probabilities) = 0;
  virtual const BatchTensors& tensors() const = 0;  // of the batch

  // A step: begin_losses(), add_loss() for every part of the minibatch, train().
  virtual void begin_losses() = 0;
  // Adds the loss of some samples of the minibatch, for which the network gave these outputs, and its gradients with
  // respect to other parameters than the network's. Nothing when the outputs are not finite: the step is lost then. The
  // gradients stay valid until the next call.
  virtual std::optional<OutputGradients> add_loss(const UpdateSettings& settings, SampleRange range,
                                                  const LossTotals& totals, const at::Tensor& outputs,
                                                  const at::Tensor& values) = 0;
  // Makes the gradients NaN when the loss is not finite.
  virtual void spoil_gradients() = 0;
  // Trains with the gradients, unless they or the loss are not finite.
  virtual StepReport train(const UpdateSettings& settings, const LossTotals& totals) = 0;

  Replica& replica_;
  GradientReducer& reducer_;
  SampleGather gather_, action_gather_;
  ChunkForward chunk_forward_;
  Minibatch minibatch_;
  StagedUpdate* batch_ = nullptr;
  const Training* training_ = nullptr;

 private:
  void use_samples(CurrentNetwork& network);
  NetworkInput input_of(std::span<const int64_t> samples);
  void use_chunks(CurrentNetwork& network);
  bool accumulate(const UpdateSettings& settings, SampleRange part, const LossTotals& totals);
  bool accumulate_chunks(const UpdateSettings& settings, std::span<const int64_t> chunks, const LossTotals& totals);
  void backward_outputs(const UpdateSettings& settings, const at::Tensor& outputs, const at::Tensor& values);

  int64_t ratios_per_sample_;
  // Of the step under way.
  const UpdateSettings* settings_ = nullptr;
  const StepTotals* totals_ = nullptr;
  StageClock* clock_ = nullptr;  // of the part under way
  std::vector<SampleRange> parts_of_step_;
  bool lost_ = false;  // outputs were not finite: the rest of the step is not computed
};

// Tokens of the longest possible sequence of a run.
double longest_sequence(const LearnerConfig& config, const AlgorithmChoice& choice, const Head& head);
// The number of whole chunks of `steps` samples in a micro-batch, at least one; `micro_batch` itself without chunks.
int64_t chunks_of(int64_t micro_batch, int64_t steps);

}  // namespace troupe
