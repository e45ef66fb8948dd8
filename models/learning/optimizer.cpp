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

}  // namespace

Optimizer::Optimizer(const TrainerConfig& config, WeightBlock& weights, ClipNorm clip)
    : config_(config), weights_(weights), clip_(clip), groups_(weights), held_{0, weights.trained().size()} {}

void Optimizer::hold(ElementRange elements) {
  if (elements == held_) return;
  TROUPE_CHECK(elements.begin <= elements.end && elements.end <= weights_.trained().size(), elements.begin,
               elements.end);
  if (first_.empty()) {
    held_ = elements;
    return;
  }
  const ElementRange common = elements.common(held_);
  for (Array* moments : {&first_, &second_}) {
    Array kept(DType::f32, {static_cast<int64_t>(elements.size())});
    if (common.size() > 0)
      std::ranges::copy(moments->view<float>().subspan(common.begin - held_.begin, common.size()),
                        kept.mutable_view<float>().subspan(common.begin - elements.begin).begin());
    *moments = std::move(kept);
  }
  held_ = elements;
}

double Optimizer::step(std::span<const float> gradients, LearningRates rates, bool train_policy) {
  TROUPE_CHECK(held_.size() == weights_.trained().size(), held_.begin, held_.end);
  return step(gradients, rates, train_policy, squares(gradients, 0));
}

double Optimizer::step(std::span<const float> gradients, LearningRates rates, bool train_policy,
                       const GradientSquares& squares) {
  TROUPE_CHECK(gradients.size() == weights_.trained().size(), gradients.size(), weights_.trained().size());
  const GradientNorms norms(squares, train_policy);
  if (!std::isfinite(norms.all)) return norms.all;
  own_moments();
  if (train_policy) apply(groups_.policy, gradients, rates.policy, norms, norms.policy);
  apply(groups_.value, gradients, rates.value, norms, norms.value);
  return norms.all;
}

double Optimizer::step_exchanging(Array& gradients, LearningRates rates, bool train_policy,
                                  const GradientSquares& squares) {
  const size_t count = weights_.trained().size();
  TROUPE_CHECK(gradients.bytes() == count * sizeof(float), gradients.bytes(), count);
  const std::span<float> all(reinterpret_cast<float*>(gradients.mutable_data()), count);
  const GradientNorms norms(squares, train_policy);
  if (!std::isfinite(norms.all)) return norms.all;
  own_moments();
  const auto keep_weights = [&](ElementRange elements) {
    std::ranges::copy(weights_.parameters().subspan(elements.begin, elements.size()), all.begin() + elements.begin);
  };
  keep_weights({0, held_.begin});
  keep_weights({held_.end, count});
  if (train_policy)
    apply(groups_.policy, all, rates.policy, norms, norms.policy);
  else
    keep_weights(held_.common({groups_.policy.range.begin, groups_.policy.range.end}));
  apply(groups_.value, all, rates.value, norms, norms.value);
  weights_.exchange(gradients);
  return norms.all;
}

template <class Gradient>
void Optimizer::apply(ParameterGroup& group, std::span<Gradient> gradients, double learning_rate,
                      const GradientNorms& norms, double norm) {
  group.steps += 1.0;
  const AdamStep step = adam_step(config_, learning_rate, group.steps);
  const auto scale = static_cast<float>(clip_scale(config_, clip_ == ClipNorm::joint ? norms.all : norm));
  const std::span<float> parameters = weights_.parameters();
  float *first = first_.mutable_view<float>().data(), *second = second_.mutable_view<float>().data();
  for (size_t i = group.range.first; i < group.range.last; ++i) {
    const Shape& shape = weights_.signature()->tensors[i].shape;
    const size_t at = weights_.parameter_offset(i);
    const ElementRange own = held_.common({at, at + static_cast<size_t>(shape.elements())});
    if (own.size() == 0) continue;
    const size_t kept = own.begin - held_.begin;
    adam(step, kept_share(config_, learning_rate, shape), own.size(), parameters.data() + own.begin,
         gradients.data() + own.begin, scale, first + kept, second + kept);
  }
}

namespace {

Array zeros(ElementRange elements) { return Array(DType::f32, {static_cast<int64_t>(elements.size())}); }

}  // namespace

// Gives the moments memory that nothing else has.
void Optimizer::own_moments() {
  for (Array* moments : {&first_, &second_})
    if (moments->empty())
      *moments = zeros(held_);
    else if (moments->is_shared())
      *moments = moments->clone();
}

AdamMoments Optimizer::moments() const {
  if (first_.empty()) return {held_, zeros(held_), zeros(held_)};
  return {held_, first_, second_};
}

void Optimizer::load(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) {
  own_moments();
  load_moments(weights_, tensors, scalars, groups_, held_, first_.mutable_view<float>(), second_.mutable_view<float>());
}

void Optimizer::load(const AdamMoments& moments, const std::map<std::string, double>& scalars) {
  TROUPE_CHECK(moments.elements == held_, held_.begin, held_.end, moments.elements.begin, moments.elements.end);
  load_counts(scalars, groups_);
  first_ = moments.first;
  second_ = moments.second;
}

void Optimizer::reset() {
  groups_ = ParameterGroups(weights_);
  first_ = second_ = {};
}

}  // namespace troupe
