#pragma once
// Optimizer: Adam over the flat parameters of a WeightBlock (Kingma and Ba 2015, algorithm 1; weight decay decoupled as in
// Loshchilov and Hutter 2019), in two groups with a learning rate each: the policy and the value function. One pass over plain
// memory: at the sizes of control policies, LibTorch's Adam spends most of its step on per-tensor overhead. One thread at a time.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/learning/trainer_config.h"
#include "models/weights/weight_block.h"

namespace troupe {

struct LearningRates {
  double policy = 0.0;
  double value = 0.0;
};

class Optimizer {
 public:
  Optimizer(const TrainerConfig& config, WeightBlock& weights);

  // Clips the gradients (laid out as the block's parameters) to max_grad_norm over all parameters and applies them; weight decay
  // reaches the weight matrices only. `train_policy` false leaves the policy group and its moments as they are. Returns the norm
  // before clipping; when it is not finite nothing has been changed.
  double step(std::span<const float> gradients, LearningRates rates, bool train_policy);

  // Moments by parameter name and step counts.
  void save(std::map<std::string, Array>& tensors, std::map<std::string, double>& scalars) const;
  // Throws ConfigError when something is missing, left over or of another shape.
  void check(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) const;
  void load(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars);

 private:
  struct Group {
    size_t first_tensor = 0, last_tensor = 0;  // [first, last)
    double steps = 0;
  };
  std::span<const float> group_of(std::span<const float> gradients, const Group& group) const;
  void apply(Group& group, std::span<const float> gradients, double learning_rate, float scale);

  TrainerConfig config_;
  WeightBlock& weights_;
  Group policy_, value_;
  std::vector<float> first_;   // running mean of the gradient, laid out as the parameters
  std::vector<float> second_;  // running mean of its square
};

// The whole number called `name` in saved scalars. Throws ConfigError when it is missing or none.
double saved_count(const std::map<std::string, double>& scalars, const std::string& name);

}  // namespace troupe
