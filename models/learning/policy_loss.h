#pragma once
// PolicyLoss: the loss of a minibatch and its gradients with respect to the network's outputs, in plain loops on host
// arrays:
//   L = TokenLoss of the log-probabilities that the head gives, without a reference + value_coef * mean(value loss),
// with means over samples, also of the entropy. No tensor library, so every term can be tested by itself. Its form for
// other devices is DevicePolicyLoss (models/torch/learning/device_loss.h): whatever is added here or to TokenLoss must
// be added there. Used by one thread at a time.

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "models/heads/heads.h"
#include "models/learning/token_loss.h"

namespace troupe {

// Some samples of a minibatch. C ratios per sample: 1, or D with one per decision.
struct LossInput {
  HeadInput head;
  ActionsView actions;                          // [B, D]
  std::span<const float> old_log_probs;         // [B, D] of the policy that ratios are taken to
  std::span<const float> behaviour_log_probs;   // [B, D] of the policy that acted
  std::span<const float> behaviour_parameters;  // [B, Head::parameter_count()] of that policy, or empty
  std::span<const float> advantages;            // [B], or [B, D] with one per decision
  std::span<const float> values;                // [B] in units of the value head, like the next two
  std::span<const float> old_values;            // [B]
  std::span<const float> returns;               // [B]
  std::span<const float> rollout_weights;       // [B, C] constant factors of the surrogate, or empty = 1
  // [B, C] 0 = without policy loss, or empty = all. Where each decision has its own ratio, those not executed
  // (head.executed) are 0.
  std::span<const uint8_t> kept;
  std::span<const int64_t> offsets;    // [S + 1] sequence i is the samples from offsets[i] - offsets[0]; empty = none
  std::span<const uint8_t> lags = {};  // [B] classes of policy lags (lag_classes.h), or empty = not measured
};

// Sums over the whole minibatch that the samples are part of: what its means divide by.
struct LossTotals {
  int64_t samples = 0;
  TokenCounts counts;  // of ratios, and of sequences
};

// What some samples add to the totals of their minibatch. C tokens (ratios) per sample.
LossTotals count_loss(int64_t samples, std::span<const int64_t> offsets, int64_t per_sample,
                      std::span<const uint8_t> kept);
// Offsets of tokens from offsets of samples; without sequences all samples make one.
void token_offsets(int64_t samples, std::span<const int64_t> offsets, int64_t per_sample, std::vector<int64_t>& out);

// The class of a sample's lag for each of its tokens; empty if `lags` is.
void token_lags(std::span<const uint8_t> lags, int64_t per_sample, std::vector<uint8_t>& out);

// Written, except log_std, which is added to.
struct LossGradients {
  std::span<float> outputs;  // [B, P]
  std::span<float> values;   // [B]
  std::span<float> log_std;  // [D]; empty unless continuous
};

class PolicyLoss {
 public:
  // `length`: tokens of the longest sequence there can be, the L of seq-mean-token-sum-norm where the config file gives
  // none.
  PolicyLoss(const AlgorithmChoice& choice, double value_coef, double length, const Head& head);

  // What the given samples add to the minibatch's loss, and its gradients: a minibatch that is passed in several parts
  // gets the gradient of the whole.
  LossReport compute(const LossInput& input, const LossTotals& totals, const LossSettings& settings, LossGradients out);

 private:
  void gather_elements(const LossInput& input);
  LossReport token_loss(const LossInput& input, const LossTotals& totals, const LossSettings& settings);
  double measure_kl(const LossInput& input, const LossTotals& totals);
  std::span<const float> for_decisions(const LossInput& input, std::span<const float> gradients);
  void backward(const LossInput& input, double entropy_weight, double kl_coef, LossGradients out);

  const Head& head_;
  TokenLoss tokens_;
  ValueLossParams value_loss_;
  bool exact_kl_;
  double value_coef_;
  int64_t per_sample_;  // C
  HeadScratch scratch_;
  std::vector<float> log_probs_, entropy_, decision_gradients_, decision_kl_;
  std::vector<float> new_, old_, behaviour_, advantages_, gradients_, kl_, kl_gradients_;  // per token
  std::vector<int64_t> offsets_;                                                           // [S + 1] of tokens
  std::vector<uint8_t> lags_;                                                              // of tokens
  std::vector<float> value_losses_;                                                        // [B]
};

}  // namespace troupe
