#include "models/learning/adam.h"

#include <algorithm>
#include <cmath>

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

void save_moments(const WeightBlock& weights, const ParameterGroups& groups, const Array& first, const Array& second,
                  std::map<std::string, Array>& tensors, std::map<std::string, double>& scalars) {
  const size_t count = weights.trained().last;
  for (size_t i = 0; i < count; ++i) {
    const TensorSpec& spec = weights.signature()->tensors[i];
    const auto at = static_cast<int64_t>(weights.parameter_offset(i)), end = at + spec.shape.elements();
    tensors["first." + spec.name] = first.slice(at, end).reshaped(spec.shape);
    tensors["second." + spec.name] = second.slice(at, end).reshaped(spec.shape);
  }
  scalars["optimizer.policy_steps"] = groups.policy.steps;
  scalars["optimizer.value_steps"] = groups.value.steps;
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
                  const std::map<std::string, double>& scalars, ParameterGroups& groups, std::span<float> first,
                  std::span<float> second) {
  check_moments(weights, tensors, scalars);
  const size_t count = weights.trained().last;
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = weights.signature()->tensors[i].name;
    const auto at = static_cast<std::ptrdiff_t>(weights.parameter_offset(i));
    std::ranges::copy(tensors.at("first." + name).view<float>(), first.begin() + at);
    std::ranges::copy(tensors.at("second." + name).view<float>(), second.begin() + at);
  }
  groups.policy.steps = saved_count(scalars, "optimizer.policy_steps");
  groups.value.steps = saved_count(scalars, "optimizer.value_steps");
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
