#include "models/learning/answers/token_loss.h"

#include <algorithm>

#include "runtime/base/errors.h"

namespace troupe {

TokenLoss::TokenLoss(const AlgorithmChoice& choice, double length, KlEstimator reference)
    : choice_(choice), length_(choice.aggregation_length.value_or(length)), reference_(reference) {}

LossReport TokenLoss::compute(const TokenLossInput& input, const TokenCounts& totals, const LossSettings& settings,
                              TokenLossGradients out) {
  const size_t count = input.log_probs.size();
  const TokenSequences sequences(input.offsets);
  TROUPE_CHECK(sequences.tokens() == static_cast<int64_t>(count), sequences.tokens(), count);
  weights_.resize(static_cast<size_t>(sequences.count()));
  aggregation_weights(choice_.aggregation, sequences, input.kept,
                      {.tokens = totals.tokens, .sequences = totals.sequences, .length = length_}, weights_);
  loss_.resize(count);
  SurrogateInput in;
  in.log_probs = input.log_probs;
  in.old_log_probs = input.old_log_probs;
  in.advantages = input.advantages;
  in.mask = input.kept;
  in.rollout_weights = input.rollout_weights;
  in.sequences = sequences;
  in.key = settings.key;

  LossReport report;
  const TokenCounts own = count_tokens(sequences, input.kept);
  report.samples = own.tokens;
  if (own.tokens == 0) {
    std::ranges::fill(out.log_probs, 0.0f);
    std::ranges::fill(out.entropy, 0.0f);
    std::ranges::fill(out.exact_kl, 0.0f);
    return report;
  }
  const double share = own.tokens / totals.tokens;
  report.surrogate = choice_.surrogate(in, {loss_, out.log_probs});
  if (!settings.train_policy) {
    report.entropy = aggregate(input.entropy, sequences, input.kept, weights_) / share;
    std::ranges::fill(out.log_probs, 0.0f);
    std::ranges::fill(out.entropy, 0.0f);
    std::ranges::fill(out.exact_kl, 0.0f);
    return report;
  }
  report.policy_loss = aggregate(loss_, sequences, input.kept, weights_) / share;
  report.entropy = aggregate(input.entropy, sequences, input.kept, weights_) / share;
  report.loss = report.policy_loss - settings.entropy_coef * report.entropy;
  if (settings.kl_coef != 0.0) {
    // KL(behaviour || trained policy) on samples of the first, so the derivative is that of the second argument.
    kl_.resize(count);
    kl_gradients_.resize(count);
    kl_estimate(choice_.kl, input.behaviour, input.log_probs, input.kept, kl_, kl_gradients_);
    report.kl = aggregate(kl_, sequences, input.kept, weights_) / share;
    report.loss += settings.kl_coef * report.kl;
    for (size_t t = 0; t < count; ++t) out.log_probs[t] -= static_cast<float>(settings.kl_coef) * kl_gradients_[t];
  }
  if (!input.exact_kl.empty()) {
    report.loss += input.reference_coef * aggregate(input.exact_kl, sequences, input.kept, weights_) / share;
  } else if (!input.reference.empty() && input.reference_coef != 0.0) {
    kl_.resize(count);
    kl_gradients_.resize(count);
    kl_estimate(reference_, input.log_probs, input.reference, input.kept, kl_, kl_gradients_);
    report.loss += input.reference_coef * aggregate(kl_, sequences, input.kept, weights_) / share;
    for (size_t t = 0; t < count; ++t) out.log_probs[t] += static_cast<float>(input.reference_coef) * kl_gradients_[t];
  }
  for (int64_t a = 0; a < sequences.count(); ++a)
    for (int64_t t = sequences.begin(a); t < sequences.end(a); ++t) {
      const auto at = static_cast<size_t>(t);
      const double weight = weights_[static_cast<size_t>(a)];
      const bool kept = input.kept.empty() || input.kept[at] != 0;
      out.log_probs[at] *= static_cast<float>(weight);
      out.entropy[at] = kept ? static_cast<float>(-settings.entropy_coef * weight) : 0.0f;
      if (!out.exact_kl.empty()) out.exact_kl[at] = kept ? static_cast<float>(input.reference_coef * weight) : 0.0f;
    }
  return report;
}

}  // namespace troupe
