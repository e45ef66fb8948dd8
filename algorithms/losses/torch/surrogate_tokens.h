#pragma once
// Shared by the device versions of all surrogates, like surrogate_kernel.h for the host versions: tokens with their
// ratios, and the diagnostics. Internal to algorithms/.

#include "algorithms/common/tile.h"
#include "algorithms/losses/surrogate_kernel.h"
#include "algorithms/losses/torch/device_surrogate.h"

namespace troupe {

// Everything that is constant during one call.
struct DeviceSurrogateJob {
  DeviceSurrogateJob(const DeviceSurrogateInput& in, const ParameterValues& parameters)
      : in(in), bounds(ratio_bounds(parameters)) {}

  const DeviceSurrogateInput& in;
  RatioBounds bounds;
  float lowest_log_ratio = -kMaxLogRatio, highest_log_ratio = kMaxLogRatio;  // clamp; no gradient beyond it
  bool weigh_rollout = true;  // false: the rule applies the rollout weights itself
};

// Masked tokens are replaced by ratio 1 and advantage 0. Each tensor is [n].
struct SurrogateTokens {
  explicit SurrogateTokens(const DeviceSurrogateJob& job);

  at::Tensor log_prob, advantage;
  at::Tensor log_ratio;  // clamped
  at::Tensor ratio;
  at::Tensor gain, loss;       // bool: the sign of the advantage
  at::Tensor above, below;     // bool: the clamp was active at this end
  at::Tensor beyond;           // bool: either of the two
  at::Tensor high, low, dual;  // bool: the ratio is outside these bounds, whatever the sign of the advantage
};

// What a rule computes for the tokens, without weights. An undefined flag means false everywhere.
struct SurrogateTerms {
  at::Tensor loss, grad;  // [n] float32
  at::Tensor clipped = {}, lower = {}, saturated = {};
};

// Applies rollout weights and mask, and adds up the diagnostics.
DeviceSurrogateOutput finish(const DeviceSurrogateJob& job, const SurrogateTokens& tokens, const SurrogateTerms& terms);

// `x` where the mask is true and 0 elsewhere; masked NaN does not pass through.
at::Tensor live_only(const at::Tensor& x, const at::Tensor& mask);

// The device versions. Per token: token_surrogates.cpp.
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
