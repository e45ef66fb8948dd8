#include "models/learning/adam.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/config/setting.h"

namespace troupe {

AdamStep adam_step(const TrainerConfig& config, double learning_rate, double number) {
  AdamStep step{};
  step.beta1 = static_cast<float>(config.adam_beta1);
  step.beta2 = static_cast<float>(config.adam_beta2);
  step.epsilon = static_cast<float>(config.adam_epsilon);
  step.step_size = static_cast<float>(learning_rate / (1.0 - std::pow(config.adam_beta1, number)));
  step.root = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(config.adam_beta2, number)));
  return step;
}

float kept_share(const TrainerConfig& config, double learning_rate, const Shape& shape) {
  return static_cast<float>(shape.rank() >= 2 ? 1.0 - learning_rate * config.weight_decay : 1.0);
}

double clip_scale(const TrainerConfig& config, double norm) {
  return config.max_grad_norm > 0.0 ? std::min(1.0, config.max_grad_norm / (norm + 1e-6)) : 1.0;
}

namespace {

double square_sum(std::span<const float> x) {
  constexpr size_t kLanes = 8;
  double lanes[kLanes] = {}, sum = 0.0;
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += static_cast<double>(x[i + lane]) * x[i + lane];
  for (; i < x.size(); ++i) sum += static_cast<double>(x[i]) * x[i];
  for (double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

GradientSquares squares_of(const ParameterGroups& groups, std::span<const float> gradients, size_t first) {
  const auto of = [&](const ParameterGroup& group) {
    const ElementRange common =
        ElementRange{first, first + gradients.size()}.common({group.range.begin, group.range.end});
    return common.size() == 0 ? 0.0 : square_sum(gradients.subspan(common.begin - first, common.size()));
  };
  return {of(groups.policy), of(groups.value)};
}

void save_moments(const WeightBlock& weights, const AdamMoments& moments, std::map<std::string, Array>& tensors) {
  TROUPE_CHECK(moments.elements == (ElementRange{0, weights.trained().size()}), moments.elements.begin,
               moments.elements.end);
  const size_t count = weights.trained().last;
  for (size_t i = 0; i < count; ++i) {
    const TensorSpec& spec = weights.signature()->tensors[i];
    const auto at = static_cast<int64_t>(weights.parameter_offset(i)), end = at + spec.shape.elements();
    tensors["first." + spec.name] = moments.first.slice(at, end).reshaped(spec.shape);
    tensors["second." + spec.name] = moments.second.slice(at, end).reshaped(spec.shape);
  }
}

void save_counts(const ParameterGroups& groups, std::map<std::string, double>& scalars) {
  scalars["optimizer.policy_steps"] = groups.policy.steps;
  scalars["optimizer.value_steps"] = groups.value.steps;
}

void load_counts(const std::map<std::string, double>& scalars, ParameterGroups& groups) {
  const double policy = saved_count(scalars, "optimizer.policy_steps");
  groups.value.steps = saved_count(scalars, "optimizer.value_steps");
  groups.policy.steps = policy;
}

namespace {

// Checks the numbers of a moment that check_tensor() has accepted.
void check_numbers(const std::string& name, const Array& moment, bool squared) {
  for (const float x : moment.view<float>())
    if (!std::isfinite(x) || (squared && x < 0))
      throw ConfigError("optimizer tensor " + name + " holds " +
                        (std::isfinite(x) ? "a negative number" : "a number that is not finite"));
}

}  // namespace

void check_moments(const WeightBlock& weights, const std::map<std::string, Array>& tensors,
                   const std::map<std::string, double>& scalars) {
  const size_t count = weights.trained().last;
  for (size_t i = 0; i < count; ++i) {
    const TensorSpec& spec = weights.signature()->tensors[i];
    for (const std::string moment : {"first.", "second."}) {
      check_tensor(tensors, moment + spec.name, spec.shape, DType::f32, "optimizer");
      check_numbers(moment + spec.name, tensors.at(moment + spec.name), moment == "second.");
    }
  }
  if (tensors.size() != 2 * count)
    throw ConfigError("optimizer: " + std::to_string(tensors.size()) + " tensors, expected " +
                      std::to_string(2 * count));
  saved_count(scalars, "optimizer.policy_steps");
  saved_count(scalars, "optimizer.value_steps");
}

void load_moments(const WeightBlock& weights, const std::map<std::string, Array>& tensors,
                  const std::map<std::string, double>& scalars, ParameterGroups& groups, ElementRange elements,
                  std::span<float> first, std::span<float> second) {
  check_moments(weights, tensors, scalars);
  const size_t count = weights.trained().last;
  for (size_t i = 0; i < count; ++i) {
    const TensorSpec& spec = weights.signature()->tensors[i];
    const size_t at = weights.parameter_offset(i);
    const ElementRange kept = elements.common({at, at + static_cast<size_t>(spec.shape.elements())});
    const auto load = [&](const std::string& name, std::span<float> moments) {
      const auto from = tensors.at(name).view<float>().subspan(kept.size() > 0 ? kept.begin - at : 0, kept.size());
      std::ranges::copy(from, moments.subspan(kept.size() > 0 ? kept.begin - elements.begin : 0, kept.size()).begin());
    };
    load("first." + spec.name, first);
    load("second." + spec.name, second);
  }
  load_counts(scalars, groups);
}

double saved_count(const std::map<std::string, double>& scalars, const std::string& name) {
  const auto found = scalars.find(name);
  if (found == scalars.end()) throw ConfigError("learner state: " + name + " is missing");
  const double value = found->second;
  if (!(value >= 0.0) || value != std::floor(value) || value > 0x1.0p53)
    throw ConfigError("learner state: " + name + " is " + std::to_string(value) + ", expected a count");
  return value;
}

double saved_kl_coef(const std::map<std::string, double>& scalars, double initial) {
  const auto saved = scalars.find("kl_coef");
  if (saved == scalars.end()) return initial;
  if (!std::isfinite(saved->second) || saved->second < 0)
    throw ConfigError("learner state: kl_coef is " + number_text(saved->second) + ", expected a number >= 0");
  return saved->second;
}

}  // namespace troupe
