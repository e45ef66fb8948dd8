#include "models/learning/optimizer.h"

#include <algorithm>
#include <cmath>

#include "models/weights/model_weights.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

struct AdamStep {
  float beta1, beta2, step_size, root, epsilon, keep;
};

void adam(const AdamStep& s, size_t n, float* p, const float* gradients, float scale, float* first, float* second) {
  for (size_t i = 0; i < n; ++i) {
    const float gradient = gradients[i] * scale;
    first[i] = s.beta1 * first[i] + (1.0f - s.beta1) * gradient;
    second[i] = s.beta2 * second[i] + (1.0f - s.beta2) * gradient * gradient;
    p[i] = s.keep * p[i] - s.step_size * first[i] / (std::sqrt(second[i]) * s.root + s.epsilon);
  }
}

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

Optimizer::Optimizer(const TrainerConfig& config, WeightBlock& weights) : config_(config), weights_(weights) {
  const auto& tensors = weights.signature()->tensors;
  const size_t count = weights.parameter_count();
  size_t split = count;
  while (split > 0 && is_value_parameter(tensors[split - 1].name)) --split;
  for (size_t i = 0; i < split; ++i) TROUPE_CHECK(!is_value_parameter(tensors[i].name), tensors[i].text());
  policy_ = {0, split, 0};
  value_ = {split, count, 0};
  first_.resize(weights.parameters().size());
  second_.resize(weights.parameters().size());
}

std::span<const float> Optimizer::group_of(std::span<const float> gradients, const Group& group) const {
  const size_t count = weights_.parameter_count();
  const auto begin_of = [&](size_t i) { return i == count ? gradients.size() : weights_.parameter_offset(i); };
  return gradients.subspan(begin_of(group.first_tensor), begin_of(group.last_tensor) - begin_of(group.first_tensor));
}

double Optimizer::step(std::span<const float> gradients, LearningRates rates, bool train_policy) {
  TROUPE_CHECK(gradients.size() == first_.size(), gradients.size(), first_.size());
  double squares = square_sum(group_of(gradients, value_));
  if (train_policy) squares += square_sum(group_of(gradients, policy_));
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm)) return norm;
  // As torch.nn.utils.clip_grad_norm_ does, epsilon included.
  const double scale = config_.max_grad_norm > 0.0 ? std::min(1.0, config_.max_grad_norm / (norm + 1e-6)) : 1.0;
  if (train_policy) apply(policy_, gradients, rates.policy, static_cast<float>(scale));
  apply(value_, gradients, rates.value, static_cast<float>(scale));
  return norm;
}

void Optimizer::apply(Group& group, std::span<const float> gradients, double learning_rate, float scale) {
  group.steps += 1.0;
  AdamStep step{};
  step.beta1 = static_cast<float>(config_.adam_beta1);
  step.beta2 = static_cast<float>(config_.adam_beta2);
  step.epsilon = static_cast<float>(config_.adam_epsilon);
  step.step_size = static_cast<float>(learning_rate / (1.0 - std::pow(config_.adam_beta1, group.steps)));
  step.root = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(config_.adam_beta2, group.steps)));
  const std::span<float> parameters = weights_.parameters();
  for (size_t i = group.first_tensor; i < group.last_tensor; ++i) {
    const Shape& shape = weights_.signature()->tensors[i].shape;
    const size_t at = weights_.parameter_offset(i);
    step.keep = static_cast<float>(shape.rank() >= 2 ? 1.0 - learning_rate * config_.weight_decay : 1.0);
    adam(step, static_cast<size_t>(shape.elements()), parameters.data() + at, gradients.data() + at, scale,
         first_.data() + at, second_.data() + at);
  }
}

void Optimizer::save(std::map<std::string, Array>& tensors, std::map<std::string, double>& scalars) const {
  for (size_t i = 0; i < weights_.parameter_count(); ++i) {
    const TensorSpec& spec = weights_.signature()->tensors[i];
    const size_t at = weights_.parameter_offset(i), count = static_cast<size_t>(spec.shape.elements());
    tensors["first." + spec.name] = Array::of(spec.shape, std::span<const float>(first_).subspan(at, count));
    tensors["second." + spec.name] = Array::of(spec.shape, std::span<const float>(second_).subspan(at, count));
  }
  scalars["optimizer.policy_steps"] = policy_.steps;
  scalars["optimizer.value_steps"] = value_.steps;
}

void Optimizer::check(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) const {
  for (size_t i = 0; i < weights_.parameter_count(); ++i) {
    const TensorSpec& spec = weights_.signature()->tensors[i];
    for (const char* moment : {"first.", "second."})
      check_tensor(tensors, moment + spec.name, spec.shape, DType::f32, "optimizer");
  }
  if (tensors.size() != 2 * weights_.parameter_count())
    throw ConfigError("optimizer: " + std::to_string(tensors.size()) + " tensors, expected " +
                      std::to_string(2 * weights_.parameter_count()));
  saved_count(scalars, "optimizer.policy_steps");
  saved_count(scalars, "optimizer.value_steps");
}

void Optimizer::load(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) {
  check(tensors, scalars);
  for (size_t i = 0; i < weights_.parameter_count(); ++i) {
    const std::string& name = weights_.signature()->tensors[i].name;
    const auto at = static_cast<std::ptrdiff_t>(weights_.parameter_offset(i));
    std::ranges::copy(tensors.at("first." + name).view<float>(), first_.begin() + at);
    std::ranges::copy(tensors.at("second." + name).view<float>(), second_.begin() + at);
  }
  policy_.steps = saved_count(scalars, "optimizer.policy_steps");
  value_.steps = saved_count(scalars, "optimizer.value_steps");
}

double saved_count(const std::map<std::string, double>& scalars, const std::string& name) {
  const auto found = scalars.find(name);
  if (found == scalars.end()) throw ConfigError("learner state: " + name + " is missing");
  const double value = found->second;
  if (!(value >= 0.0) || value != std::floor(value) || value > 0x1.0p53)
    throw ConfigError("learner state: " + name + " is " + std::to_string(value) + ", expected a count");
  return value;
}

}  // namespace troupe
