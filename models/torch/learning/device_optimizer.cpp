#include "models/torch/learning/device_optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "models/torch/replica.h"

namespace troupe {

namespace {

ElementRange elements_of(const ParameterGroup& group) { return {group.range.begin, group.range.end}; }

at::Tensor host_zeros(ElementRange elements) {
  return at::zeros({static_cast<int64_t>(elements.size())}, at::TensorOptions().dtype(at::kFloat));
}

std::span<float> mutable_floats(at::Tensor& host) {
  return {host.mutable_data_ptr<float>(), static_cast<size_t>(host.numel())};
}

}  // namespace

DeviceOptimizer::DeviceOptimizer(const TrainerConfig& config, const WeightBlock& weights, DeviceWeights& device)
    : config_(config),
      weights_(weights),
      device_(device),
      groups_(weights),
      held_{0, static_cast<size_t>(device.gradients().numel())},
      first_(at::zeros_like(device.gradients())),
      second_(at::zeros_like(device.gradients())) {
  if (config.weight_decay == 0.0) return;
  at::Tensor decayed = at::zeros({first_.numel()}, at::TensorOptions().dtype(at::kFloat));
  const size_t count = weights.trained().last;
  for (size_t i = 0; i < count; ++i) {
    const Shape& shape = weights.signature()->tensors[i].shape;
    const auto at = static_cast<int64_t>(weights.parameter_offset(i));
    if (shape.rank() >= 2) decayed.slice(0, at, at + shape.elements()).fill_(1);
  }
  decayed_ = decayed.to(device.device());
}

at::Tensor DeviceOptimizer::norm(bool train_policy) const {
  const at::NoGradGuard guard;
  const auto norm_of = [&](const ParameterGroup& group) {
    return at::linalg_vector_norm(slice_of(device_.gradients(), elements_of(group)), 2, {}, false, at::kDouble);
  };
  const at::Tensor value = norm_of(groups_.value);
  return train_policy ? at::hypot(value, norm_of(groups_.policy)) : value;
}

GradientSquares DeviceOptimizer::squares(ElementRange elements) const {
  const at::Tensor host = on_host(slice_of(device_.gradients(), elements));
  return squares_of(groups_, floats_of(host), elements.begin);
}

void DeviceOptimizer::hold(ElementRange elements) {
  if (elements == held_) return;
  const at::NoGradGuard guard;
  const ElementRange common = elements.common(held_);
  for (at::Tensor* moments : {&first_, &second_}) {
    at::Tensor kept = at::zeros({static_cast<int64_t>(elements.size())}, moments->options());
    if (common.size() > 0)
      slice_of(kept, {common.begin - elements.begin, common.end - elements.begin})
          .copy_(slice_of(*moments, {common.begin - held_.begin, common.end - held_.begin}));
    *moments = kept;
  }
  held_ = elements;
}

AdamMoments DeviceOptimizer::moments() const {
  const auto array_of = [](const at::Tensor& moments) {
    const at::Tensor host = on_host(moments);
    return Array::of<float>({host.numel()}, floats_of(host));
  };
  return {held_, array_of(first_), array_of(second_)};
}

void DeviceOptimizer::apply(double norm, LearningRates rates, bool train_policy) {
  if (!std::isfinite(norm)) return;
  const at::NoGradGuard guard;
  const double scale = clip_scale(config_, norm);
  if (train_policy) apply_group(groups_.policy, rates.policy, scale);
  apply_group(groups_.value, rates.value, scale);
}

void DeviceOptimizer::apply_group(ParameterGroup& group, double learning_rate, double scale) {
  group.steps += 1.0;
  const AdamStep step = adam_step(config_, learning_rate, group.steps);
  const ElementRange own = held_.common(elements_of(group));
  if (own.size() == 0) return;
  const ElementRange kept = {own.begin - held_.begin, own.end - held_.begin};
  const at::Tensor gradient = slice_of(device_.gradients(), own) * static_cast<float>(scale);
  at::Tensor first = slice_of(first_, kept), second = slice_of(second_, kept),
             parameters = slice_of(device_.parameters(), own);
  first.mul_(step.beta1).add_(gradient, 1.0f - step.beta1);
  second.mul_(step.beta2).addcmul_(gradient, gradient, 1.0f - step.beta2);
  if (decayed_.defined()) {
    const double lost = kept_share(config_, learning_rate, {1, 1}) - 1.0;
    parameters.mul_(slice_of(decayed_, own) * lost + 1);
  }
  parameters.addcdiv_(first, second.sqrt().mul_(step.root).add_(step.epsilon), -step.step_size);
}

void DeviceOptimizer::load(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) {
  at::Tensor first = host_zeros(held_), second = host_zeros(held_);
  load_moments(weights_, tensors, scalars, groups_, held_, mutable_floats(first), mutable_floats(second));
  first_.copy_(first);
  second_.copy_(second);
}

void DeviceOptimizer::load(const AdamMoments& moments, const std::map<std::string, double>& scalars) {
  TROUPE_CHECK(moments.elements == held_, held_.begin, held_.end, moments.elements.begin, moments.elements.end);
  load_counts(scalars, groups_);
  const auto load = [this](const Array& from, const at::Tensor& to) {
    at::Tensor host = host_zeros(held_);
    std::ranges::copy(from.view<float>(), mutable_floats(host).begin());
    to.copy_(host);
  };
  load(moments.first, first_);
  load(moments.second, second_);
}

void DeviceOptimizer::reset() {
  groups_ = ParameterGroups(weights_);
  first_.zero_();
  second_.zero_();
}

}  // namespace troupe
