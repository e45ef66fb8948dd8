#pragma once
// What the two forms of the optimizer (optimizer.h, device/device_optimizer.h) have in common: groups of parameters,
// the numbers of a step, and the saved form of moments and step counts. Plain functions; any thread.

#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "models/learning/trainer_config.h"
#include "models/shards/adam_moments.h"
#include "models/shards/element_range.h"
#include "models/shards/gradient_squares.h"
#include "models/weights/weight_block.h"

namespace troupe {

struct LearningRates {
  double policy = 0.0;
  double value = 0.0;
};

struct ParameterGroup {
  TensorRange range;
  double steps = 0;  // optimizer steps that changed them
};

// The parameters that are trained.
struct ParameterGroups {
  explicit ParameterGroups(const WeightBlock& weights)
      : policy{weights.range_of(TensorGroup::policy)},
        value{weights.range_of(TensorGroup::value, TensorGroup::critic)} {}

  ParameterGroup policy;
  ParameterGroup value;  // and critic
};

// The numbers of one Adam step:
//   first = beta1 first + (1 - beta1) g,  second = beta2 second + (1 - beta2) g^2,
//   p = keep p - step_size first / (sqrt(second) root + epsilon).
struct AdamStep {
  float beta1, beta2, step_size, root, epsilon;
};
// Those of step `number`, counted from 1.
AdamStep adam_step(const TrainerConfig& config, double learning_rate, double number);
// `keep` of a tensor: weight decay applies only to tensors of two or more dimensions.
float kept_share(const TrainerConfig& config, double learning_rate, const Shape& shape);
// The factor that clips gradients of this norm, as in torch.nn.utils.clip_grad_norm_, epsilon included.
double clip_scale(const TrainerConfig& config, double norm);

// The sums of squares of some gradients, which begin at element `first` of the block.
GradientSquares squares_of(const ParameterGroups& groups, std::span<const float> gradients, size_t first);
// As clip_scale() and ClipNorm need them.
struct GradientNorms {
  GradientNorms(const GradientSquares& squares, bool train_policy)
      : all(std::sqrt(squares.value + (train_policy ? squares.policy : 0.0))),
        policy(std::sqrt(squares.policy)),
        value(std::sqrt(squares.value)) {}

  double all, policy, value;
};

// Saves the moments, those of all trained parameters, as tensors by parameter name that share their memory.
void save_moments(const WeightBlock& weights, const AdamMoments& moments, std::map<std::string, Array>& tensors);
void save_counts(const ParameterGroups& groups, std::map<std::string, double>& scalars);
// Throws ConfigError when one is missing or no count, and then changes nothing.
void load_counts(const std::map<std::string, double>& scalars, ParameterGroups& groups);
// Throws ConfigError when a tensor or a count is missing, unknown or of another shape.
void check_moments(const WeightBlock& weights, const std::map<std::string, Array>& tensors,
                   const std::map<std::string, double>& scalars);
// Makes the same checks and then loads them: the moments of `elements` of the trained parameters.
void load_moments(const WeightBlock& weights, const std::map<std::string, Array>& tensors,
                  const std::map<std::string, double>& scalars, ParameterGroups& groups, ElementRange elements,
                  std::span<float> first, std::span<float> second);

// What an optimizer keeps between steps, in whichever form.
class OptimizerState {
 public:
  virtual ~OptimizerState() = default;
  // From here on it trains these elements of the trained parameters alone, and keeps no other moments; at first all.
  // Moments that it has not kept begin as those of a new optimizer, until load().
  virtual void hold(ElementRange elements) = 0;
  // Those that it keeps, in memory of their own or until the next step.
  virtual AdamMoments moments() const = 0;
  virtual void save_counts(std::map<std::string, double>& scalars) const = 0;
  // As load_moments(); it takes the moments that it keeps.
  virtual void load(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) = 0;
  // The same with the moments that it keeps. Throws InvariantError when they are others.
  virtual void load(const AdamMoments& moments, const std::map<std::string, double>& scalars) = 0;
  // As before the first step.
  virtual void reset() = 0;
};

// The whole number called `name` in saved scalars. Throws ConfigError when it is missing or not a whole number.
double saved_count(const std::map<std::string, double>& scalars, const std::string& name);
// The coefficient of the KL penalty in saved scalars; `initial` when they have none. Throws ConfigError when it is not
// a number >= 0.
double saved_kl_coef(const std::map<std::string, double>& scalars, double initial);

}  // namespace troupe
