#pragma once
// KL estimates (algorithms/losses/kl.h) and value losses (algorithms/losses/value_loss.h) as tensor operations. Pure
// functions; any thread. Includes LibTorch: only for sources that link it.

#include <ATen/core/Tensor.h>

#include "algorithms/losses/kl.h"
#include "algorithms/losses/value_loss.h"

namespace troupe {

// Each [n] float32, 0 where masked.
struct LossAndSlope {
  at::Tensor loss, slope;
};

// As kl_estimate(): all [n]; mask [n] bool, or undefined = all. Not for KlKind::full.
LossAndSlope kl_on_device(KlEstimator estimator, const at::Tensor& log_probs, const at::Tensor& reference_log_probs,
                          const at::Tensor& mask);

struct DeviceValueLoss {
  LossAndSlope of;     // with respect to the values
  at::Tensor clipped;  // [n] bool: clipping is active; undefined without clipping
};

// As value_loss() without a mask: all [n].
DeviceValueLoss value_loss_on_device(const at::Tensor& values, const at::Tensor& old_values, const at::Tensor& returns,
                                     const ValueLossParams& params);

}  // namespace troupe
