#pragma once
// TokenLoss: the loss of the tokens of answers and its gradients with respect to their log-probabilities and entropies:
//   L = agg(surrogate) + kl_coef * agg(kl) + reference_coef * agg(kl to the reference) - entropy_coef * agg(H),
// agg over tokens as the config file says (algorithm.aggregation). Its counterpart for actions is PolicyLoss. Used by
// one thread at a time.

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "models/learning/policy_loss.h"

namespace troupe {

// N tokens of A answers, answer after answer.
struct TokenLossInput {
  std::span<const float> log_probs;        // [N] of the policy being trained
  std::span<const float> entropy;          // [N]
  std::span<const float> old_log_probs;    // [N] of the policy that ratios are taken to
  std::span<const float> behaviour;        // [N] log-probabilities of the policy that sampled the tokens
  std::span<const float> advantages;       // [N]
  std::span<const float> rollout_weights;  // [N] constant factors of the surrogate, or empty = 1
  std::span<const uint8_t> kept;           // [N] 0 = without loss, or empty = all
  std::span<const int64_t> offsets;        // [A + 1]
  std::span<const float> reference = {};   // [N] log-probabilities of the reference, or empty = without it
  std::span<const float> exact_kl = {};    // [N] with KlKind::full, in their place: KL(policy || reference)
  double reference_coef = 0;
};

// Written. [N]
struct TokenLossGradients {
  std::span<float> log_probs, entropy;
  std::span<float> exact_kl = {};  // as in the input
};

class TokenLoss {
 public:
  // `length`: the largest number of tokens of an answer, the L of seq-mean-token-sum-norm where the config file gives
  // none.
  TokenLoss(const AlgorithmChoice& choice, double length, KlEstimator reference = {});

  // What these tokens add to the loss of their minibatch, which has `totals`, and its gradients; both are 0 where the
  // settings do not train the policy. The means of the report are over tokens, and its losses are scaled up as
  // LossReport says.
  LossReport compute(const TokenLossInput& input, const TokenCounts& totals, const LossSettings& settings,
                     TokenLossGradients out);

 private:
  AlgorithmChoice choice_;
  double length_;
  KlEstimator reference_;
  std::vector<float> loss_, kl_, kl_gradients_;
  std::vector<double> weights_;  // [A]
};

}  // namespace troupe
