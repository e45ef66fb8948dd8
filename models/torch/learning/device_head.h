#pragma once
// DeviceHead: what Head (models/heads/heads.h) computes for given actions, as tensor operations: log-probabilities,
// entropies and their gradients. Const after construction, so any thread. Includes LibTorch: for the sources of models/
// only.

#include <ATen/core/Tensor.h>

#include "models/heads/heads.h"

namespace troupe {

// The network's outputs for B samples, with the fields of HeadInput.
struct DeviceHeadInput {
  at::Tensor outputs;   // [B, P] float32
  at::Tensor log_std;   // [D]; undefined unless continuous
  at::Tensor mask;      // [B, M] bool; undefined unless the action space is masked
  at::Tensor executed;  // [B] int32 decisions of each sample that were executed; undefined = all
};

class DeviceHead {
 public:
  // The results of evaluate(), and what backward() needs.
  struct Evaluation {
    at::Tensor log_probs;  // [B, D] float32, 0 where not executed
    at::Tensor entropy;    // [B]
    at::Tensor cut;        // [B, D] bool: not executed; undefined = none
    // Discrete kinds, where K is the largest number of bins; categories beyond the bins of a decision have probability
    // 0.
    at::Tensor chosen;         // [B, D, 1] int64
    at::Tensor probabilities;  // [B, D, K]
    at::Tensor surplus;        // [B, D, K] log-probability plus entropy
    // Continuous.
    at::Tensor z;            // [B, D] (action - mean) / std
    at::Tensor inverse_std;  // [D]
  };
  struct Gradients {
    at::Tensor outputs;  // [B, P]
    at::Tensor log_std;  // [D]; undefined unless continuous
  };

  DeviceHead(const Head& head, at::Device device);

  const Head& host() const { return head_; }
  // Stored actions [B, D] in the form that evaluate() takes: continuous ones unchanged, others as int64 clamped to
  // their range.
  at::Tensor actions(const at::Tensor& stored) const;

  // The executed actions must be valid: nothing on a device checks them.
  Evaluation evaluate(const DeviceHeadInput& input, const at::Tensor& actions) const;
  // [B, D] as Head::sum_squared_probabilities().
  at::Tensor sum_squared_probabilities(const Evaluation& evaluation) const;
  // From dL/dlog_probs [B, D] and dL/dentropy, the same for every sample.
  Gradients backward(const Evaluation& evaluation, const at::Tensor& log_prob_gradients, double entropy_gradient) const;

 private:
  Evaluation evaluate_discrete(const DeviceHeadInput& input, const at::Tensor& actions) const;
  Evaluation evaluate_continuous(const DeviceHeadInput& input, const at::Tensor& actions) const;
  at::Tensor by_decision(const at::Tensor& samples) const;

  const Head& head_;
  int64_t bins_ = 0;     // K
  at::Tensor decision_;  // [D] int32: 0, 1, ...
  at::Tensor last_bin_;  // [D] int64
  // Where decisions have different numbers of bins; undefined otherwise.
  at::Tensor columns_;  // [D * K] int64 the output of each category; padding takes the first
  at::Tensor padding_;  // [D, K] bool
  at::Tensor places_;   // [P] int64 where an output is in D * K
};

}  // namespace troupe
