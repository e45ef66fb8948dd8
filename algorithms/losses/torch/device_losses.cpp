#include "algorithms/losses/torch/device_losses.h"

#include <ATen/ATen.h>

#include <limits>

#include "algorithms/common/tile.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr double kLargestLowVar = 10.0;  // low_var_kl is clamped to +- this (verl, github.com/volcengine/verl)

// exp(-d) + d - 1 for d clamped to +-bound, in double: near d = 0 float32 would lose all digits.
LossAndSlope k3_of(const at::Tensor& d, double bound) {
  const at::Tensor x = d.neg().clamp(-bound, bound).to(at::kDouble), growth = x.expm1();
  return {(growth - x).to(at::kFloat), growth.neg().to(at::kFloat).masked_fill(d.abs() > bound, 0)};
}

LossAndSlope terms_of(KlKind kind, const at::Tensor& d) {
  switch (kind) {
    case KlKind::k1: return {d, at::ones_like(d)};
    case KlKind::abs: return {d.abs(), d.sign().masked_fill(d.isnan(), std::numeric_limits<double>::quiet_NaN())};
    case KlKind::k2: return {d * d * 0.5, d};
    case KlKind::k3: return k3_of(d, kExpLimit);
    case KlKind::low_var_kl: {
      const auto [loss, slope] = k3_of(d, kMaxLogRatio);
      return {loss.clamp(-kLargestLowVar, kLargestLowVar), slope.masked_fill(loss > kLargestLowVar, 0)};
    }
    case KlKind::full: break;
  }
  throw InvariantError("kl_on_device: the exact KL needs logits");
}

LossAndSlope of_error(const at::Tensor& error, const ValueLossParams& params) {
  if (params.kind == ValueLossKind::l2) return {error * error * 0.5, error};
  const at::Tensor inside = error.clamp(-params.huber_delta, params.huber_delta);
  return {inside * (error - inside * 0.5), inside};
}

}  // namespace

LossAndSlope kl_on_device(KlEstimator estimator, const at::Tensor& log_probs, const at::Tensor& reference_log_probs,
                          const at::Tensor& mask) {
  const at::Tensor all = log_probs - reference_log_probs;
  const at::Tensor d = mask.defined() ? all.masked_fill(mask.logical_not(), 0) : all;
  auto [loss, slope] = terms_of(estimator.kind, d);
  if (estimator.k2_gradient) slope = d;
  if (mask.defined()) slope = slope.masked_fill(mask.logical_not(), 0);
  return {loss, slope};
}

DeviceValueLoss value_loss_on_device(const at::Tensor& values, const at::Tensor& old_values, const at::Tensor& returns,
                                     const ValueLossParams& params) {
  TROUPE_CHECK(params.clip >= 0 && params.huber_delta > 0, "clip", params.clip, "huber_delta", params.huber_delta);
  const LossAndSlope plain = of_error(values - returns, params);
  if (params.clip == 0) return {plain, {}};
  const at::Tensor near = at::minimum(at::maximum(values, old_values - params.clip), old_values + params.clip);
  const at::Tensor near_loss = of_error(near - returns, params).loss;
  // Both losses are equal inside the range, so where the clipped one is larger its gradient is 0.
  const at::Tensor clipped = near_loss > plain.loss;
  return {{at::where(clipped, near_loss, plain.loss), plain.slope.masked_fill(clipped, 0)}, clipped};
}

}  // namespace troupe
