#pragma once
// UpdateForm: the part of an update that depends on where the data is. HostForm computes it with plain loops on host
// arrays around the network's tensor operations, DeviceForm with tensor operations alone. Both compute the same up to
// rounding, and their saved states are the same. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "models/learning/adam.h"
#include "models/learning/minibatch.h"
#include "models/learning/objective.h"
#include "models/learning/scaling_history.h"
#include "models/learning/start.h"
#include "models/learning/targets.h"
#include "models/learning/update_settings.h"
#include "models/shards/gradient_pieces.h"
#include "models/shards/rank_round.h"
#include "models/shards/shard_sum.h"
#include "models/torch/learning/chunk_forward.h"
#include "models/torch/learning/staged_update.h"
#include "models/torch/replica.h"

namespace troupe {

// The training targets of the batch of a shard.
struct Training {
  const Targets& targets;
  std::span<const uint8_t> is_trained;  // [B]; looked at only with chunks
};

class UpdateForm {
 public:
  // Both references must outlive this. There is a batch for each of trainer.shards.
  UpdateForm(const TrainerConfig& config, Replica& replica, const AlgorithmChoice& choice);
  virtual ~UpdateForm() = default;
  // Its functions refer to it.
  UpdateForm(const UpdateForm&) = delete;
  UpdateForm& operator=(const UpdateForm&) = delete;

  // From the next update on these shards are computed here; at first all. In what follows `shard` is the index of one
  // among them, and what has a place for each shard has one for each of them.
  void hold_shards(ShardRange shards);
  // Likewise, of the parameters, these are trained here: the sum of the micro-batches of a step is kept of these alone.
  void hold_slice(ElementRange elements);
  const ShardRange& held() const { return leaves_.mine(); }

  // An update calls begin() and begin_steps() for each shard, a step for every minibatch and end(), or begin() alone
  // when nothing is left to train on. begin() normalises the inputs of the batch. `batch` must outlive the update.
  void begin(size_t shard, StagedUpdate& batch, const SampleScalings& scalings);
  // The network with its current weights, for the batch of that shard. Neither may change while the result is used,
  // nor may other functions of this be called.
  CurrentNetwork current_network(size_t shard);
  // From here on the update uses the host weights that changed since begin(). `training` must outlive the steps.
  void begin_steps(size_t shard, const Training& training);
  // What a minibatch of that shard adds to the totals that the means of its loss divide by.
  LossTotals count(size_t shard, SampleRange minibatch);
  // Into how many micro-batches of at most `micro_batch` samples (0 = whole), or one longer sequence, a minibatch of
  // that shard is cut. With chunks, they are whole chunks, and `minibatch` are the indices of some, each of which has
  // something to train on.
  size_t micro_batches_of(size_t shard, SampleRange minibatch, int64_t micro_batch) const;
  // The optimizer step of one minibatch, to which each shard adds one of its own, as Objective has it: begin_step(),
  // which returns the parts of each micro-batch, backward() for each of them, end_backward() and set_gradients() unless
  // all shards are held, end_micro_batch(), and apply(). The gradients of the shards are added up as shard_sum() says,
  // each micro-batch by itself. `most`: micro-batches of the shard that has most. `settings` and `totals`, those of all
  // shards, must outlive the step.
  std::vector<size_t> begin_step(const UpdateSettings& settings, std::span<const SampleRange> minibatches,
                                 const LossTotals& totals, int64_t micro_batch, size_t most);
  void backward(size_t part, StageClock& clock);
  void say_gradients_to(Objective::SayGradients say) { say_ = std::move(say); }
  void end_backward();
  // What the shards say of the step, for apply().
  std::vector<ShardNumbers> losses();
  void set_gradients(ElementRange elements, const Array& sum);
  void end_micro_batch();
  // `all`: of all shards; empty where all are held.
  StepReport apply(std::span<const ShardNumbers> all, const GradientSquares* squares);
  virtual GradientSquares squares(ElementRange elements) = 0;
  Array parameters(ElementRange elements) const;
  virtual void set_parameters(ElementRange elements, const Array& values);
  void use_parameters() { replica_.network->weights_changed(); }
  // Copies the trained weights to the host.
  virtual void end() = 0;

  virtual OptimizerState& optimizer() = 0;

 protected:
  // Of a loss with respect to the network's outputs.
  struct OutputGradients {
    at::Tensor policy;  // [B, P]
    at::Tensor values;  // [B, 1]
  };

  // Of the shard that is under way: its batch is batch(), its targets are training().
  virtual void begin_batch(const SampleScalings& scalings) = 0;
  virtual void place_training() {}
  // What the policy computes for the stored actions of some samples of the batch from the network's outputs for them.
  virtual SampleEvaluation evaluate(std::span<const int64_t> samples, const NetworkOutput& said,
                                    bool probabilities) = 0;
  virtual const BatchTensors& tensors() const = 0;  // of the batch

  // A step: begin_losses(), for each shard add_loss() for every part of its minibatch, train() or, with several shards,
  // loss_reports() and train_with().
  virtual void begin_losses() = 0;
  // Adds the loss of some samples of the minibatch, for which the network gave these outputs, and its gradients with
  // respect to other parameters than the network's. Nothing when the outputs are not finite: the step is lost then. The
  // gradients stay valid until the next call.
  virtual std::optional<OutputGradients> add_loss(const UpdateSettings& settings, SampleRange range,
                                                  const LossTotals& totals, const at::Tensor& outputs,
                                                  const at::Tensor& values) = 0;
  // Trains with the gradients, unless they or the loss are not finite.
  virtual StepReport train(const UpdateSettings& settings, const LossTotals& totals) = 0;
  // By shard.
  virtual std::vector<LossReport> loss_reports(const UpdateSettings& settings, const LossTotals& totals) = 0;
  // Trains with the gradients, unless they are not finite. Returns their norm. `squares`: of all of them.
  virtual double train_with(const UpdateSettings& settings, const GradientSquares& squares) = 0;
  bool lost() const { return lost_; }

  size_t shards() const { return shards_.size(); }
  size_t shard() const { return shard_; }  // that is under way
  StagedUpdate& batch() const { return *shards_[shard_].batch; }
  const Training& training() const { return *shards_[shard_].training; }

  Replica& replica_;
  SampleGather gather_, action_gather_;
  ChunkForward chunk_forward_;
  Minibatch minibatch_;

 private:
  struct Shard {
    StagedUpdate* batch = nullptr;
    const Training* training = nullptr;
    UpdateSettings settings;         // of the step under way, with its own stream of random numbers
    std::vector<SampleRange> parts;  // of the step under way
  };

  void go_to_leaf(size_t leaf);
  void add_sum(size_t place);
  void keep_sum(size_t place);
  void add_total();
  void keep_total();
  at::Tensor gradients_of(ElementRange elements) const;
  void say_piece(size_t piece);
  void use_samples(CurrentNetwork& network);
  NetworkInput input_of(std::span<const int64_t> samples);
  void use_chunks(CurrentNetwork& network);
  bool accumulate(const UpdateSettings& settings, SampleRange part, const LossTotals& totals);
  bool accumulate_chunks(const UpdateSettings& settings, std::span<const int64_t> chunks, const LossTotals& totals);
  void backward_outputs(const UpdateSettings& settings, const at::Tensor& outputs, const at::Tensor& values);

  int64_t ratios_per_sample_;
  std::vector<Shard> shards_;
  size_t shard_ = 0;
  ShardLeaves leaves_;
  ElementRange slice_;             // of the parameters, that is trained here
  std::vector<PagedTensor> sums_;  // of gradients, by place; but for the last place
  at::Tensor total_;               // of slice_: the sum of the micro-batches before
  GradientPieces pieces_;
  Objective::SayGradients say_;
  bool last_leaf_ = false;  // of the micro-batch, is under way, and other ranks have other shards
  // Of the step under way.
  const UpdateSettings* settings_ = nullptr;
  const LossTotals* totals_ = nullptr;
  StageClock* clock_ = nullptr;  // of the part under way
  std::vector<size_t> leaf_of_part_;
  bool lost_ = false;  // outputs were not finite: the rest of the step is not computed
};

// Tokens of the longest possible sequence of a run.
double longest_sequence(const LearnerConfig& config, const AlgorithmChoice& choice, const Head& head);
// The number of whole chunks of `steps` samples in a micro-batch, at least one; `micro_batch` itself without chunks.
int64_t chunks_of(int64_t micro_batch, int64_t steps);

}  // namespace troupe
