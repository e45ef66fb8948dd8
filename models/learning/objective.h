#pragma once
// Objective: what a learner computes, and where: the weights, their optimizer, and the loss of a super-batch with its
// gradients. The learner (update_learner.h) does the rest: epochs, early stop, KL control, metrics, saved state. One
// thread.

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "models/learning/adam.h"
#include "models/learning/metrics.h"
#include "models/learning/update_settings.h"
#include "models/policy.h"
#include "models/shards/element_range.h"
#include "models/shards/gradient_squares.h"
#include "models/shards/rank_round.h"
#include "models/weights/weight_block.h"
#include "runtime/base/errors.h"
#include "runtime/stats/stage_seconds.h"

namespace troupe {

struct StepReport {
  LossReport loss;
  double grad_norm = 0.0;  // before clipping; not finite: the step was skipped, and nothing has changed
  bool applied() const { return std::isfinite(grad_norm); }
};

// What the epochs of an update train on.
struct EpochInput {
  double samples = 0;  // in an epoch, of all shards; 0: there is nothing to train on
  std::optional<TargetFigures> figures = {};
};

class Objective {
 public:
  virtual ~Objective() = default;

  // -- weights
  virtual const AlgorithmChoice& choice() const = 0;
  // Draws them if none were loaded. Not done before they are needed: it takes seconds for large models.
  virtual void require_weights() = 0;
  virtual const WeightBlock& weights() const = 0;
  // The published ones, and all of them by name.
  virtual WeightsPtr snapshot(PolicyVersion version) const { return weights().snapshot(version); }
  virtual std::map<std::string, Array> saved_weights() const { return weights().save(); }
  // Replaces all of them by these, by the signature's names. They must fit.
  virtual void load_weights(const std::map<std::string, Array>& model) = 0;
  virtual OptimizerState& optimizer() = 0;
  virtual std::shared_ptr<const Stager> stager() const = 0;
  // [D] of continuous actions, else empty.
  virtual std::span<const float> log_std() const = 0;
  virtual bool has_critic() const = 0;
  // As Learner::reference().
  virtual WeightsPtr reference(PolicyVersion /*version*/) const { return nullptr; }
  // As Learner::end_warmup().
  virtual void end_warmup() { optimizer().reset(); }
  // An optimizer step as Learner::imitate() makes it.
  virtual StepReport imitate(StagedBatch& /*demonstrations*/, double /*learning_rate*/) {
    throw InvariantError("this model does not learn from demonstrations");
  }

  // -- what else must last: adds it to what is saved
  virtual void save(std::map<std::string, Array>& state) const = 0;
  // Takes it out of what was saved; the result puts it in place. Throws ConfigError when it does not fit.
  virtual std::function<void()> read(std::map<std::string, Array>& state) = 0;

  // -- an update: begin(), make_targets(), the epochs if there is something to train on, end()
  // What these functions return as numbers is of the shards that are computed here; what they take is of all shards.
  // Of the shards that are computed here from the next update on; at first all.
  virtual void hold_shards(ShardRange shards) = 0;
  // From the next update on these of the parameters are trained here, with moments for them alone; at first all.
  virtual void hold_slice(ElementRange elements) { optimizer().hold(elements); }
  // Where backward() and end_backward() take the pieces of gradients of these shards, each once in a micro-batch.
  using SayGradients = std::function<void(size_t piece, std::vector<GradientBranch> branches)>;
  virtual void say_gradients_to(SayGradients say) = 0;
  // `shards` has the batch of each shard that is computed here; they must live until end(). The result is what
  // make_targets() needs of these shards; where all are computed here, it may leave out the data.
  virtual RankPart begin(std::span<StagedBatch* const> shards) = 0;
  virtual EpochInput make_targets(const RoundResult& all) = 0;
  // Draws the minibatches of an epoch from the stream `key`; use_epoch() returns their number. Without numbers, these
  // are known everywhere.
  virtual std::vector<ShardNumbers> begin_epoch(uint64_t key) = 0;
  virtual size_t use_epoch(std::span<const ShardNumbers> all) = 0;
  // Begins the optimizer step of a minibatch, to which each shard adds its own samples. Returns the number of parts of
  // each micro-batch, which backward() computes one after the other; nothing, and then there is no step, when all
  // shards add none. After the parts of a micro-batch: end_backward(), say_losses() and end_micro_batch().
  virtual std::optional<std::vector<size_t>> begin_step(size_t minibatch, const UpdateSettings& settings) = 0;
  // Adds the gradients of a part, by its number in the step. Marks UpdateStages::forward after the forward pass and the
  // loss.
  virtual void backward(size_t part, StageClock& clock) = 0;
  // The next three are not called where all shards are computed here.
  // All parts of a micro-batch were computed: says the pieces of gradients that backward() has not said yet.
  virtual void end_backward() = 0;
  // What else the shards say of the step, in its last micro-batch.
  virtual RankPart say_losses() = 0;
  // The sum of these for that micro-batch, [n] float32.
  virtual void set_gradients(ElementRange elements, const Array& sum) = 0;
  // `losses`: what all shards say, in the last micro-batch; empty where all shards are computed here.
  virtual void end_micro_batch(const RoundResult& losses) = 0;
  // Of some of the gradients, which are those of the step.
  virtual GradientSquares squares(ElementRange elements) = 0;
  // Trains with the gradients, unless they or the loss are not finite, the parameters whose moments the optimizer
  // holds. `all`: of the last micro-batch, or empty where all shards are computed here. `squares`: of all gradients;
  // null with one shard.
  virtual StepReport apply(std::span<const ShardNumbers> all, const GradientSquares* squares) = 0;
  // Some of the parameters, [n] float32; and those that another rank has trained.
  virtual Array parameters(ElementRange elements) = 0;
  virtual void set_parameters(ElementRange elements, const Array& values) = 0;
  // The step that was applied is complete: computes with the new parameters from here on.
  virtual void use_parameters() = 0;
  virtual void end(double progress) = 0;
  // Of the micro-batches of the update that has ended; nothing where they are not cut by tokens.
  virtual std::optional<BalanceFigures> balance() const { return std::nullopt; }
  // Of the update that has ended; nothing where the samples are no tokens of answers.
  virtual std::optional<LagFigures> lag_figures() const { return std::nullopt; }
};

}  // namespace troupe
