#include "models/learning/optimizer.h"

#include <cmath>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

void adam(const AdamStep& s, float keep, size_t n, float* p, const float* gradients, float scale, float* first,
          float* second) {
  for (size_t i = 0; i < n; ++i) {
    const float gradient = gradients[i] * scale;
    first[i] = s.beta1 * first[i] + (1.0f - s.beta1) * gradient;
    second[i] = s.beta2 * second[i] + (1.0f - s.beta2) * gradient * gradient;
    p[i] = keep * p[i] - s.step_size * first[i] / (std::sqrt(second[i]) * s.root + s.epsilon);
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

Optimizer::Optimizer(const TrainerConfig& config, WeightBlock& weights, ClipNorm clip)
    : config_(config), weights_(weights), clip_(clip), groups_(weights) {
  first_.resize(weights.trained().size());
  second_.resize(weights.trained().size());
}

double Optimizer::step(std::span<const float> gradients, LearningRates rates, bool train_policy) {
  TROUPE_CHECK(gradients.size() == first_.size(), gradients.size(), first_.size());
  const auto squares_of = [&](const ParameterGroup& group) {
    return square_sum(gradients.subspan(group.range.begin, group.range.size()));
  };
  const double of_value = squares_of(groups_.value), of_policy = train_policy ? squares_of(groups_.policy) : 0.0;
  const double norm = std::sqrt(of_value + of_policy);
  if (!std::isfinite(norm)) return norm;
  const auto scale = [&](double of_group) {
    return static_cast<float>(clip_scale(config_, clip_ == ClipNorm::joint ? norm : std::sqrt(of_group)));
  };
  if (train_policy) apply(groups_.policy, gradients, rates.policy, scale(of_policy));
  apply(groups_.value, gradients, rates.value, scale(of_value));
  return norm;
}

void Optimizer::apply(ParameterGroup& group, std::span<const float> gradients, double learning_rate, float scale) {
  group.steps += 1.0;
  const AdamStep step = adam_step(config_, learning_rate, group.steps);
  const std::span<float> parameters = weights_.parameters();
  for (size_t i = group.range.first; i < group.range.last; ++i) {
    const Shape& shape = weights_.signature()->tensors[i].shape;
    const size_t at = weights_.parameter_offset(i);
    adam(step, kept_share(config_, learning_rate, shape), static_cast<size_t>(shape.elements()), parameters.data() + at,
         gradients.data() + at, scale, first_.data() + at, second_.data() + at);
  }
}

void Optimizer::save(std::map<std::string, Array>& tensors, std::map<std::string, double>& scalars) const {
  save_moments(weights_, groups_, first_, second_, tensors, scalars);
}

void Optimizer::load(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) {
  load_moments(weights_, tensors, scalars, groups_, first_, second_);
}

void Optimizer::reset() {
  groups_ = ParameterGroups(weights_);
  std::ranges::fill(first_, 0.0f);
  std::ranges::fill(second_, 0.0f);
}

}  // namespace troupe
