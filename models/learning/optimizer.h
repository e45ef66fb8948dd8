#pragma once
// Optimizer: Adam over the flat parameters of a WeightBlock (Kingma and Ba 2015, arXiv:1412.6980, algorithm 1; weight
// decay decoupled as in Loshchilov and Hutter 2019, arXiv:1711.05101), in two groups with a learning rate each: the
// policy, and the value function or critic. Frozen parameters are not changed. One pass over plain memory: at the sizes
// of control policies, LibTorch's Adam spends most of its step on per-tensor overhead. Its form for other devices is
// DeviceOptimizer. One thread at a time.

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "models/learning/adam.h"
#include "models/learning/trainer_config.h"
#include "models/weights/weight_block.h"

namespace troupe {

// What max_grad_norm bounds: the norm over all gradients, or that of each group by itself, so that the gradients of one
// do not scale those of the other.
enum class ClipNorm : uint8_t { joint = 0, by_group = 1 };

class Optimizer final : public OptimizerState {
 public:
  Optimizer(const TrainerConfig& config, WeightBlock& weights, ClipNorm clip = ClipNorm::joint);

  // Clips the gradients (laid out as the block's trained parameters) to max_grad_norm and applies them; weight decay
  // applies to weight matrices only. `train_policy` false leaves the policy group and its moments as they are. Returns
  // the norm over all of them before clipping; when it is not finite nothing has been changed.
  double step(std::span<const float> gradients, LearningRates rates, bool train_policy);
  // The same with the squares of all gradients, of which only those of the elements that it holds are read.
  double step(std::span<const float> gradients, LearningRates rates, bool train_policy, const GradientSquares& squares);
  // The latter without writing to the block's memory, which snapshots may have (WeightBlock::share): the new weights
  // replace the gradients, and the two memories are swapped. Elements that it does not hold keep their old weights. All
  // of the block's tensors must be trained. `gradients`: laid out as the block; afterwards the old weights.
  double step_exchanging(Array& gradients, LearningRates rates, bool train_policy, const GradientSquares& squares);
  // Of gradients that begin at element `first`.
  GradientSquares squares(std::span<const float> gradients, size_t first) const {
    return squares_of(groups_, gradients, first);
  }

  void hold(ElementRange elements) override;
  AdamMoments moments() const override;
  void save_counts(std::map<std::string, double>& scalars) const override { troupe::save_counts(groups_, scalars); }
  void load(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) override;
  void load(const AdamMoments& moments, const std::map<std::string, double>& scalars) override;
  void reset() override;

 private:
  // One step of a group with gradients of this norm. Gradient: `const float`, or `float` to put the new weights in
  // their place instead of the block's.
  template <class Gradient>
  void apply(ParameterGroup& group, std::span<Gradient> gradients, double learning_rate, const GradientNorms& norms,
             double norm);
  void own_moments();

  TrainerConfig config_;
  WeightBlock& weights_;
  ClipNorm clip_;
  ParameterGroups groups_;
  ElementRange held_;
  // [held_] float32, laid out as these gradients; or empty, which counts as zeros. A saved state shares them until the
  // next step.
  Array first_;   // running mean of the gradient
  Array second_;  // running mean of its square
};

}  // namespace troupe
