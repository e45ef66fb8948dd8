#include "models/learning/token_loss.h"

#include <algorithm>

#include "runtime/base/errors.h"

namespace troupe {

TokenLoss::TokenLoss(const AlgorithmChoice& choice, double length, KlEstimator reference)
    : choice_(choice), length_(choice.aggregation_length.value_or(length)), reference_(reference) {}

LossReport TokenLoss::compute(const TokenLossInput& input, const TokenCounts& totals, const LossSettings& settings,
                              TokenLossGradients out) {
  const TokenSequences sequences(input.offsets);
  weights_.resize(static_cast<size_t>(sequences.count()));
  aggregation_weights(choice_.aggregation, sequences, input.kept,
                      {.tokens = totals.tokens, .sequences = totals.sequences, .length = length_}, weights_);
  LossReport report;
  report.count = input.count;
  run_surrogate(input, settings, out.log_probs, report);
  report.entropy = input.entropy.empty() ? input.mean_entropy : aggregate_of(input, input.entropy);
  if (!settings.train_policy) {
    for (const std::span<float> gradients : {out.log_probs, out.entropy, out.exact_kl, out.reference_kl})
      std::ranges::fill(gradients, 0.0f);
    return report;
  }
  report.policy_loss = aggregate_of(input, loss_);
  report.loss = report.policy_loss - settings.entropy_coef * report.entropy;
  if (settings.kl_coef != 0.0) {
    // On samples of the behaviour policy, so that an estimate is without bias. The current policy is the second
    // argument, and the derivative with respect to it has the opposite sign.
    report.kl = choice_.kl.kind == KlKind::full
                    ? aggregate_of(input, input.exact_kl)
                    : add_kl(input, choice_.kl, input.behaviour, input.log_probs, -settings.kl_coef, out.log_probs);
    report.loss += settings.kl_coef * report.kl;
  }
  if (input.reference_coef != 0.0)
    report.loss += input.reference_coef * (reference_.kind == KlKind::full
                                               ? aggregate_of(input, input.reference_kl)
                                               : add_kl(input, reference_, input.log_probs, input.reference,
                                                        input.reference_coef, out.log_probs));
  weigh_gradients(input, settings, out);
  return report;
}

// Losses and gradients of the tokens, without the weights of their sequences, and what the surrogate reports.
void TokenLoss::run_surrogate(const TokenLossInput& input, const LossSettings& settings, std::span<float> gradients,
                              LossReport& report) {
  loss_.resize(input.log_probs.size());
  SurrogateInput in;
  in.log_probs = input.log_probs;
  in.old_log_probs = input.old_log_probs;
  in.advantages = input.advantages;
  in.mask = input.kept;
  in.rollout_weights = input.rollout_weights;
  in.sequences = TokenSequences(input.offsets);
  in.key = settings.key;
  in.classes = input.lags;
  SurrogateOutput out;
  if (settings.train_policy) out = {loss_, gradients};
  if (!input.lags.empty()) out.by_class = report.by_lag;
  report.surrogate = choice_.surrogate(in, out);
}

double TokenLoss::aggregate_of(const TokenLossInput& input, std::span<const float> values) const {
  return aggregate(values, TokenSequences(input.offsets), input.kept, weights_) / input.share;
}

// The aggregate of estimates of KL(p || q); adds `coef` times their derivatives with respect to log p to the gradients.
double TokenLoss::add_kl(const TokenLossInput& input, KlEstimator estimator, std::span<const float> p,
                         std::span<const float> q, double coef, std::span<float> gradients) {
  kl_.resize(gradients.size());
  kl_gradients_.resize(gradients.size());
  kl_estimate(estimator, p, q, input.kept, kl_, kl_gradients_);
  const auto factor = static_cast<float>(coef);
  for (size_t t = 0; t < gradients.size(); ++t) gradients[t] += factor * kl_gradients_[t];
  return aggregate_of(input, kl_);
}

void TokenLoss::weigh_gradients(const TokenLossInput& input, const LossSettings& settings,
                                TokenLossGradients out) const {
  const TokenSequences sequences(input.offsets);
  for (int64_t i = 0; i < sequences.count(); ++i) {
    const auto weight = static_cast<float>(weights_[static_cast<size_t>(i)]);
    for (auto t = static_cast<size_t>(sequences.begin(i)); t < static_cast<size_t>(sequences.end(i)); ++t)
      out.log_probs[t] *= weight;
  }
  const auto spread = [&](double coef, std::span<float> gradients) {
    if (!gradients.empty()) aggregate_backward(sequences, input.kept, weights_, coef, gradients);
  };
  spread(-settings.entropy_coef, out.entropy);
  spread(settings.kl_coef, out.exact_kl);
  spread(input.reference_coef, out.reference_kl);
}

}  // namespace troupe
