#pragma once
// What the device forms of all surrogates share, as surrogate_kernel.h does for the host forms: tokens with their
// ratios, and the diagnostics. Internal to algorithms/.

#include "algorithms/common/tile.h"
#include "algorithms/losses/device/device_surrogate.h"
#include "algorithms/losses/surrogate_kernel.h"

namespace troupe {

// What is constant over the tokens of a call.
struct DeviceSurrogateJob {
  DeviceSurrogateJob(const DeviceSurrogateInput& in, const ParameterValues& parameters)
      : in(in), bounds(ratio_bounds(parameters)) {}

  const DeviceSurrogateInput& in;
  RatioBounds bounds;
  float lowest_log_ratio = -kMaxLogRatio, highest_log_ratio = kMaxLogRatio;  // clamp; without gradient beyond
  bool weigh_rollout = true;  // false: the rule has seen to the rollout weights
};

// Where a token is masked, one of ratio 1 and advantage 0 stands. Each [n].
struct SurrogateTokens {
  explicit SurrogateTokens(const DeviceSurrogateJob& job);

  at::Tensor log_prob, advantage;
  at::Tensor log_ratio;  // clamped
  at::Tensor ratio;
  at::Tensor gain, loss;       // bool: the sign of the advantage
  at::Tensor above, below;     // bool: the clamp took effect
  at::Tensor beyond;           // bool: either of the two
  at::Tensor high, low, dual;  // bool: the ratio is outside these bounds, whatever the sign of the advantage
};

// What a rule makes of the tokens, without weights; an undefined flag is false everywhere.
struct SurrogateTerms {
  at::Tensor loss, grad;  // [n] float32
  at::Tensor clipped = {}, lower = {}, saturated = {};
};

// Applies rollout weights and mask, and adds up the diagnostics.
DeviceSurrogateOutput finish(const DeviceSurrogateJob& job, const SurrogateTokens& tokens, const SurrogateTerms& terms);

// `x` where the mask is true, and 0 elsewhere, whatever stands there.
at::Tensor live_only(const at::Tensor& x, const at::Tensor& mask);

// The device forms. Per token: token_surrogates.cpp.
DeviceSurrogateOutput clip_on_device(const DeviceSurrogateInput&, const ParameterValues&);
DeviceSurrogateOutput soft_clip_on_device(const DeviceSurrogateInput&, const ParameterValues&);
DeviceSurrogateOutput sapo_on_device(const DeviceSurrogateInput&, const ParameterValues&);
DeviceSurrogateOutput ce_gppo_on_device(const DeviceSurrogateInput&, const ParameterValues&);
DeviceSurrogateOutput cispo_on_device(const DeviceSurrogateInput&, const ParameterValues&);
DeviceSurrogateOutput log_prob_on_device(const DeviceSurrogateInput&, const ParameterValues&);
DeviceSurrogateOutput gipo_on_device(const DeviceSurrogateInput&, const ParameterValues&);
DeviceSurrogateOutput unclipped_on_device(const DeviceSurrogateInput&, const ParameterValues&);
// Per sequence, and per batch: group_surrogates.cpp.
DeviceSurrogateOutput gspo_on_device(const DeviceSurrogateInput&, const ParameterValues&);
DeviceSurrogateOutput geo_mean_on_device(const DeviceSurrogateInput&, const ParameterValues&);
DeviceSurrogateOutput clip_cov_on_device(const DeviceSurrogateInput&, const ParameterValues&);
DeviceSurrogateOutput kl_cov_on_device(const DeviceSurrogateInput&, const ParameterValues&);

}  // namespace troupe
