#pragma once
// PolicyLoss: the loss of a minibatch and its gradients with respect to the network's outputs, in plain loops on host
// arrays: the policy surrogate, the penalty on the distance to the behaviour policy, the entropy bonus and the value
// loss, added up as
//   L = agg(surrogate) + kl_coef * agg(kl) - entropy_coef * mean(H) + value_coef * mean(value loss),
// agg over tokens (importance ratios) as the config file says, means over samples. No tensor library, so every term can
// be tested by itself. Its form for other devices is DevicePolicyLoss (models/torch/learning/device_loss.h), and for
// the tokens of answers TokenLoss (models/learning/answers/token_loss.h): whatever is added here must be added there.
// Used by one thread at a time.

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "models/heads/heads.h"

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
  std::span<const int64_t> offsets;  // [S + 1] sequence i is the samples from offsets[i] - offsets[0]; empty = none
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

struct LossSettings {
  double entropy_coef = 0.0;
  double kl_coef = 0.0;
  bool train_policy = true;  // false: the value loss alone, with policy gradients of 0
  // False, and then nothing trains the policy either: the report needs the value loss alone.
  bool policy_figures = true;
  uint64_t key = 0;  // of the random stream of surrogates that draw
};

// Written, except log_std, which is added to.
struct LossGradients {
  std::span<float> outputs;  // [B, P]
  std::span<float> values;   // [B]
  std::span<float> log_std;  // [D]; empty unless continuous
};

// Means over samples, and over tokens where each has its own ratio. A loss that is not a mean is scaled up as if the
// other samples of the minibatch added as much, so that the mean over its parts is the loss of the whole.
struct LossReport {
  double samples = 0;
  double policy_loss = 0;
  double value_loss = 0;
  double value_clip_fraction = 0;  // samples whose value loss is clipped
  double entropy = 0;              // per sample
  double kl = 0;                   // the penalty: an estimate, or with KlKind::full the divergence; 0 while kl_coef is
  double kl_exact = 0;      // mean of KL(behaviour || current) over tokens; 0 without the behaviour policy's parameters
  double loss = 0;          // the whole sum above
  SurrogateSums surrogate;  // of one step's samples
  SurrogateDiagnostics diagnostics;  // means over steps

  // Adds the report of more samples of the same step: means over both, and sums.
  void merge(const LossReport& other);
  // Adds the report of another step: means over both. A step's diagnostics come from the sums over all its samples,
  // because an effective sample size is not the mean of those of its parts.
  void add_step(const LossReport& step);

 private:
  void add_means(const LossReport& other);
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
  void weigh_sequences(const LossInput& input, const LossTotals& totals);
  SurrogateSums run_surrogate(const LossInput& input, const LossSettings& settings);
  double add_kl(const LossInput& input, double kl_coef);
  double measure_kl(const LossInput& input, const LossTotals& totals);
  void add_exact_kl_gradients(const LossInput& input, double kl_coef, LossGradients out);
  double aggregate_loss(const LossInput& input, std::span<const float> loss) const;
  void backward(const LossInput& input, double entropy_weight, LossGradients out);

  const Head& head_;
  AlgorithmChoice choice_;
  double value_coef_, length_;
  int64_t per_sample_;  // C
  HeadScratch scratch_;
  std::vector<float> log_probs_, entropy_, decision_gradients_, decision_kl_;
  std::vector<float> new_, old_, behaviour_, advantages_, loss_, gradients_, kl_, kl_gradients_;  // per token
  std::vector<int64_t> offsets_;                                                                  // [S + 1] of tokens
  std::vector<double> sequence_weights_;                                                          // [S]
};

}  // namespace troupe
