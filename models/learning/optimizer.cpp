#include "models/learning/optimizer.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

// Writes the new weights to p, or over gradients that are not constant.
template <class Gradient>
void adam(const AdamStep& s, float keep, size_t n, float* p, Gradient* gradients, float scale, float* first,
          float* second) {
  for (size_t i = 0; i < n; ++i) {
    const float gradient = gradients[i] * scale;
    first[i] = s.beta1 * first[i] + (1.0f - s.beta1) * gradient;
    second[i] = s.beta2 * second[i] + (1.0f - s.beta2) * gradient * gradient;
    const float next = keep * p[i] - s.step_size * first[i] / (std::sqrt(second[i]) * s.root + s.epsilon);
    if constexpr (std::is_const_v<Gradient>)
      p[i] = next;
    else
      gradients[i] = next;
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
  const auto count = static_cast<int64_t>(weights.trained().size());
  first_ = Array(DType::f32, {count});
  second_ = Array(DType::f32, {count});
}

Optimizer::Norms Optimizer::norms_of(std::span<const float> gradients, bool train_policy) const {
  const auto squares_of = [&](const ParameterGroup& group) {
    return square_sum(gradients.subspan(group.range.begin, group.range.size()));
  };
  const double of_value = squares_of(groups_.value), of_policy = train_policy ? squares_of(groups_.policy) : 0.0;
  return {.all = std::sqrt(of_value + of_policy), .policy = std::sqrt(of_policy), .value = std::sqrt(of_value)};
}

double Optimizer::step(std::span<const float> gradients, LearningRates rates, bool train_policy) {
  TROUPE_CHECK(static_cast<int64_t>(gradients.size()) == first_.size(), gradients.size(), first_.size());
  const Norms norms = norms_of(gradients, train_policy);
  if (!std::isfinite(norms.all)) return norms.all;
  detach_moments();
  if (train_policy) apply(groups_.policy, gradients, rates.policy, norms, norms.policy);
  apply(groups_.value, gradients, rates.value, norms, norms.value);
  return norms.all;
}

double Optimizer::step_exchanging(Array& gradients, LearningRates rates, bool train_policy) {
  const auto count = static_cast<size_t>(first_.size());
  TROUPE_CHECK(gradients.bytes() == count * sizeof(float), gradients.bytes(), count);
  const std::span<float> all(reinterpret_cast<float*>(gradients.mutable_data()), count);
  const Norms norms = norms_of(all, train_policy);
  if (!std::isfinite(norms.all)) return norms.all;
  detach_moments();
  const TensorRange& policy = groups_.policy.range;
  if (train_policy)
    apply(groups_.policy, all, rates.policy, norms, norms.policy);
  else
    std::ranges::copy(weights_.parameters().subspan(policy.begin, policy.size()), all.begin() + policy.begin);
  apply(groups_.value, all, rates.value, norms, norms.value);
  weights_.exchange(gradients);
  return norms.all;
}

template <class Gradient>
void Optimizer::apply(ParameterGroup& group, std::span<Gradient> gradients, double learning_rate, const Norms& norms,
                      double norm) {
  group.steps += 1.0;
  const AdamStep step = adam_step(config_, learning_rate, group.steps);
  const auto scale = static_cast<float>(clip_scale(config_, clip_ == ClipNorm::joint ? norms.all : norm));
  const std::span<float> parameters = weights_.parameters();
  float *first = first_.mutable_view<float>().data(), *second = second_.mutable_view<float>().data();
  for (size_t i = group.range.first; i < group.range.last; ++i) {
    const Shape& shape = weights_.signature()->tensors[i].shape;
    const size_t at = weights_.parameter_offset(i);
    adam(step, kept_share(config_, learning_rate, shape), static_cast<size_t>(shape.elements()), parameters.data() + at,
         gradients.data() + at, scale, first + at, second + at);
  }
}

void Optimizer::detach_moments() {
  for (Array* moments : {&first_, &second_})
    if (moments->is_shared()) *moments = moments->clone();
}

void Optimizer::save(std::map<std::string, Array>& tensors, std::map<std::string, double>& scalars) const {
  save_moments(weights_, groups_, first_, second_, tensors, scalars);
}

void Optimizer::load(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) {
  detach_moments();
  load_moments(weights_, tensors, scalars, groups_, first_.mutable_view<float>(), second_.mutable_view<float>());
}

void Optimizer::reset() {
  groups_ = ParameterGroups(weights_);
  detach_moments();
  std::ranges::fill(first_.mutable_view<float>(), 0.0f);
  std::ranges::fill(second_.mutable_view<float>(), 0.0f);
}

}  // namespace troupe
