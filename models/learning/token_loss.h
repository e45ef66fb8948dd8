#pragma once
// TokenLoss: the loss of the policy on some tokens (importance ratios) and its gradients, in plain loops on host
// arrays:
//   L = agg(surrogate) + kl_coef * agg(kl) + reference_coef * agg(kl to the reference) - entropy_coef * entropy,
// agg over tokens as the config file says (algorithm.aggregation). Tokens are those of answers, or the decisions of
// actions (PolicyLoss). Used by one thread at a time.

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "models/learning/loss_report.h"

namespace troupe {

struct LossSettings {
  double entropy_coef = 0.0;
  double kl_coef = 0.0;
  bool train_policy = true;  // false: the value loss alone, with policy gradients of 0
  // False, and then nothing trains the policy either: the report needs the value loss alone.
  bool policy_figures = true;
  uint64_t key = 0;  // of the random stream of surrogates that draw
};

// N tokens of S sequences, sequence after sequence.
struct TokenLossInput {
  double count = 0;                        // that of the report: samples, or tokens of answers
  double share = 1;                        // of the minibatch that they are
  std::span<const float> log_probs;        // [N] of the policy being trained
  std::span<const float> old_log_probs;    // [N] of the policy that ratios are taken to
  std::span<const float> behaviour;        // [N] log-probabilities of the policy that sampled the tokens
  std::span<const float> advantages;       // [N]
  std::span<const float> rollout_weights;  // [N] constant factors of the surrogate, or empty = 1
  std::span<const uint8_t> kept;           // [N] 0 = without loss, or empty = all
  std::span<const int64_t> offsets;        // [S + 1] from 0
  std::span<const uint8_t> lags = {};      // [N] classes of their policy lags (lag_classes.h), or empty = not measured
  std::span<const float> entropy = {};     // [N] whose aggregate is the entropy, or empty = mean_entropy
  double mean_entropy = 0;
  std::span<const float> exact_kl = {};      // [N] KL(behaviour || policy), where algorithm.kl is full
  std::span<const float> reference = {};     // [N] log-probabilities of the reference
  std::span<const float> reference_kl = {};  // [N] in their place, where reference.kl is full: KL(policy || reference)
  double reference_coef = 0;                 // 0 = without a reference
};

// Written. [N] each; `entropy`, `exact_kl` and `reference_kl` are empty where those of the input are.
struct TokenLossGradients {
  std::span<float> log_probs;
  std::span<float> entropy = {}, exact_kl = {}, reference_kl = {};
};

class TokenLoss {
 public:
  // `length`: tokens of the longest sequence there can be, the L of seq-mean-token-sum-norm where the config file gives
  // none.
  TokenLoss(const AlgorithmChoice& choice, double length, KlEstimator reference = {});

  // What these tokens add to the loss of their minibatch, which has `totals`, and its gradients; both are 0 where the
  // settings do not train the policy.
  LossReport compute(const TokenLossInput& input, const TokenCounts& totals, const LossSettings& settings,
                     TokenLossGradients out);

 private:
  void run_surrogate(const TokenLossInput& input, const LossSettings& settings, std::span<float> gradients,
                     LossReport& report);
  double aggregate_of(const TokenLossInput& input, std::span<const float> values) const;
  double add_kl(const TokenLossInput& input, KlEstimator estimator, std::span<const float> p, std::span<const float> q,
                double coef, std::span<float> gradients);
  void weigh_gradients(const TokenLossInput& input, const LossSettings& settings, TokenLossGradients out) const;

  AlgorithmChoice choice_;
  double length_;
  KlEstimator reference_;
  std::vector<float> loss_, kl_, kl_gradients_;
  std::vector<double> weights_;  // [S]
};

}  // namespace troupe
