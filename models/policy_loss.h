#pragma once
// PolicyLoss: the loss of a minibatch and its gradients with respect to what the network said, in plain loops on host arrays: the
// policy surrogate, the penalty on the distance to the behaviour policy, the entropy bonus and the value loss,
//   L = mean(surrogate) + kl_coef * mean(k3) - entropy_coef * mean(H) + value_coef * mean(value loss).
// No tensor library, so every part can be tested by itself. Used by one thread at a time.

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/surrogate.h"
#include "algorithms/value_loss.h"
#include "models/heads.h"
#include "runtime/run_config.h"

namespace troupe {

// Some rows of a minibatch.
struct LossInput {
  HeadInput head;
  ActionsView actions;                   // [B, D]
  std::span<const float> old_log_probs;  // [B, D]
  std::span<const float> advantages;     // [B]
  std::span<const float> values;         // [B] in units of the value head, like the next two
  std::span<const float> old_values;     // [B]
  std::span<const float> returns;        // [B]
};

// Written, except log_std, which is added to.
struct LossGradients {
  std::span<float> outputs;  // [B, P]
  std::span<float> values;   // [B]
  std::span<float> log_std;  // [D]; empty unless continuous
};

// Means over rows, and over decisions where each has its own ratio.
struct LossReport {
  double rows = 0;
  double policy_loss = 0;
  double value_loss = 0;
  double entropy = 0;  // per row
  double loss = 0;     // the whole sum above
  SurrogateDiagnostics diagnostics;

  // Means over both.
  void merge(const LossReport& other);
};

class PolicyLoss {
 public:
  // Throws ConfigError when the config names a loss that does not exist.
  PolicyLoss(const AlgorithmConfig& config, const Head& head);

  // The loss over the given rows, and the gradients of (their sum / total_rows): rows that are handed over in several parts
  // give the gradient of their common mean. train_policy false leaves the value loss alone, with policy gradients of 0.
  LossReport compute(const LossInput& input, int64_t total_rows, double entropy_coef, bool train_policy,
                     LossGradients out);

 private:
  double policy_gradients(const LossInput& input, double weight, double entropy_coef, LossGradients out,
                          LossReport& report);
  void gather_elements(const LossInput& input);

  const Head& head_;
  AlgorithmConfig config_;
  Surrogate surrogate_;
  ValueLossParams value_params_;
  bool per_decision_;  // one ratio per decision instead of one per row
  HeadScratch scratch_;
  std::vector<float> log_probs_, entropy_, decision_gradients_;
  std::vector<float> new_, old_, advantages_, loss_, gradients_;  // per ratio
};

}  // namespace troupe
