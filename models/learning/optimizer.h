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
#include <vector>

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

  void save(std::map<std::string, Array>& tensors, std::map<std::string, double>& scalars) const override;
  void load(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) override;
  void reset() override;

 private:
  void apply(ParameterGroup& group, std::span<const float> gradients, double learning_rate, float scale);

  TrainerConfig config_;
  WeightBlock& weights_;
  ClipNorm clip_;
  ParameterGroups groups_;
  std::vector<float> first_;   // running mean of the gradient, laid out as the gradients
  std::vector<float> second_;  // running mean of its square
};

}  // namespace troupe
