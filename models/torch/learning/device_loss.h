#pragma once
// DevicePolicyLoss: what PolicyLoss (models/learning/policy_loss.h) computes, as tensor operations with the gradients
// written out. Used by one thread at a time. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "algorithms/losses/torch/device_surrogate.h"
#include "models/learning/policy_loss.h"
#include "models/torch/learning/device_head.h"

namespace troupe {

// Some samples of a minibatch, with the fields of LossInput, on a device. float32 unless stated otherwise.
struct DeviceLossInput {
  DeviceHeadInput head;
  at::Tensor actions;                      // [B, D] as DeviceHead::evaluate() takes them
  at::Tensor old_log_probs;                // [B, D]
  at::Tensor behaviour_log_probs;          // [B, D]
  at::Tensor advantages;                   // [B] or [B, D]
  at::Tensor values, old_values, returns;  // [B]
  at::Tensor rollout_weights;              // [B, C], or undefined = 1
  at::Tensor kept;                         // [B, C] bool, or undefined = all
  std::span<const uint8_t> host_kept;      // [B, C] the same in host memory, or empty
  std::span<const int64_t> offsets;        // [S + 1] in host memory, or empty
  std::span<const uint8_t> lags = {};      // [B] in host memory, or empty
};

// Tensors on the device; the host does not wait for them.
struct DeviceLossResult {
  at::Tensor outputs;  // [B, P] dL/doutputs
  at::Tensor values;   // [B] dL/dvalues
  at::Tensor log_std;  // [D] dL/dlog_std; undefined unless continuous
  at::Tensor figures;  // [kFigures] float64, for report()
  int64_t samples = 0;
  int64_t live = 0;  // tokens that are kept
};

class DevicePolicyLoss {
 public:
  static constexpr int64_t kLagFigures = static_cast<int64_t>(kLagClasses) * kClassSums;
  static constexpr int64_t kFigures = kSurrogateSums + 7 + kLagFigures;

  // The arguments are those of PolicyLoss. Throws ConfigError when the surrogate or the KL penalty has no device form.
  // `head` must outlive this.
  DevicePolicyLoss(const AlgorithmChoice& choice, double value_coef, double length, const DeviceHead& head);

  DeviceLossResult compute(const DeviceLossInput& input, const LossTotals& totals, const LossSettings& settings) const;

  // `figures` of a result in host memory. Its `loss` is not finite when the outputs were not. Throws InvariantError
  // when the log_std was not finite.
  LossReport report(const DeviceLossResult& result, std::span<const double> figures, const LossTotals& totals,
                    const LossSettings& settings) const;

 private:
  // One token per importance ratio: a decision, or a sample with the log-probabilities of its executed decisions
  // summed.
  struct Tokens {
    at::Tensor new_log_probs, old_log_probs, behaviour_log_probs, advantages;  // [B * C]
    at::Tensor kept, rollout_weights;                                          // the same, or undefined
  };
  struct PolicyTerm {
    DeviceHead::Gradients gradients;
    at::Tensor loss, kl;  // float64 scalars
  };
  struct Call;
  Tokens tokens_of(const DeviceLossInput& input, const DeviceHead::Evaluation& evaluation) const;
  DeviceSurrogateOutput run_surrogate(const Call& call, int64_t live) const;
  at::Tensor token_weights(const Call& call) const;
  PolicyTerm policy_term(const Call& call, const DeviceSurrogateOutput& surrogate, const at::Tensor& zero) const;

  const DeviceHead& head_;
  AlgorithmChoice choice_;
  DeviceSurrogateFunction surrogate_;
  double value_coef_, length_;
  int64_t per_sample_;  // C
};

}  // namespace troupe
