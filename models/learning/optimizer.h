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
  // The same without writing to the block's memory, which snapshots may have (WeightBlock::share): the new weights
  // replace the gradients, and the two memories are swapped. All of the block's tensors must be trained. `gradients`:
  // laid out as the block; afterwards the old weights.
  double step_exchanging(Array& gradients, LearningRates rates, bool train_policy);

  void save(std::map<std::string, Array>& tensors, std::map<std::string, double>& scalars) const override;
  void load(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) override;
  void reset() override;

 private:
  // Of gradients, before clipping.
  struct Norms {
    double all = 0, policy = 0, value = 0;
  };
  Norms norms_of(std::span<const float> gradients, bool train_policy) const;
  // One step of a group with gradients of this norm. Gradient: `const float`, or `float` to put the new weights in
  // their place instead of the block's.
  template <class Gradient>
  void apply(ParameterGroup& group, std::span<Gradient> gradients, double learning_rate, const Norms& norms,
             double norm);
  void detach_moments();

  TrainerConfig config_;
  WeightBlock& weights_;
  ClipNorm clip_;
  ParameterGroups groups_;
  // [gradients] float32, laid out as these. A saved state shares them until the next step.
  Array first_;   // running mean of the gradient
  Array second_;  // running mean of its square
};

}  // namespace troupe
