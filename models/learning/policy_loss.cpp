#include "models/learning/policy_loss.h"

#include <algorithm>
#include <numeric>

#include "models/learning/value_term.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

double mean_of_samples(std::span<const float> x) {
  double sum = 0;
  for (float value : x) sum += value;
  return x.empty() ? 0.0 : sum / static_cast<double>(x.size());
}

}  // namespace

void token_offsets(int64_t samples, std::span<const int64_t> offsets, int64_t per_sample, std::vector<int64_t>& out) {
  out.clear();
  for (const int64_t offset : offsets) out.push_back((offset - offsets.front()) * per_sample);
  if (out.empty()) out = {0, samples * per_sample};
  TROUPE_CHECK(out.back() == samples * per_sample, out.back(), samples, per_sample);
}

void token_lags(std::span<const uint8_t> lags, int64_t per_sample, std::vector<uint8_t>& out) {
  out.clear();
  for (const uint8_t lag : lags) out.insert(out.end(), static_cast<size_t>(per_sample), lag);
}

LossTotals count_loss(int64_t samples, std::span<const int64_t> offsets, int64_t per_sample,
                      std::span<const uint8_t> kept) {
  std::vector<int64_t> tokens;
  token_offsets(samples, offsets, per_sample, tokens);
  return {samples, count_tokens(TokenSequences(tokens), kept)};
}

PolicyLoss::PolicyLoss(const AlgorithmChoice& choice, double value_coef, double length, const Head& head)
    : head_(head),
      tokens_(choice, length),
      value_loss_(choice.value_loss),
      exact_kl_(choice.kl.kind == KlKind::full),
      value_coef_(value_coef),
      per_sample_(choice.per_decision ? head.decisions() : 1) {}

LossReport PolicyLoss::compute(const LossInput& input, const LossTotals& totals, const LossSettings& settings,
                               LossGradients out) {
  const int64_t samples = input.head.samples;
  TROUPE_CHECK(totals.samples >= samples && samples >= 1, totals.samples, samples);
  log_probs_.resize(samples * head_.decisions());
  entropy_.resize(samples);
  head_.evaluate(input.head, input.actions, log_probs_, entropy_, scratch_);
  gather_elements(input);
  LossReport report = token_loss(input, totals, settings);
  const double weight = 1.0 / static_cast<double>(totals.samples);
  if (settings.train_policy)
    backward(input, -settings.entropy_coef * weight, settings.kl_coef, out);
  else
    std::ranges::fill(out.outputs, 0.0f);
  value_losses_.resize(samples);
  add_value_term({input.values, input.old_values, input.returns, static_cast<double>(totals.samples)}, value_loss_,
                 value_coef_, value_losses_, out.values, report);
  return report;
}

// One element per importance ratio: a decision, or a sample with the log-probabilities of its executed decisions
// summed.
void PolicyLoss::gather_elements(const LossInput& input) {
  const int64_t samples = input.head.samples, decisions = head_.decisions();
  const int64_t summed = decisions / per_sample_, elements = samples * per_sample_;
  const int64_t advantages = static_cast<int64_t>(input.advantages.size()) / samples;
  TROUPE_CHECK(advantages == 1 || advantages == per_sample_, advantages, per_sample_);
  TROUPE_CHECK(per_sample_ == 1 || input.head.executed.empty() || !input.kept.empty(), per_sample_);
  for (auto* buffer : {&new_, &old_, &behaviour_, &advantages_}) buffer->resize(elements);
  const auto sum = [&](std::span<const float> source, int64_t e) {
    const float* first = source.data() + e * summed;
    const bool cut = per_sample_ == 1 && !input.head.executed.empty();
    return std::accumulate(first, first + (cut ? input.head.executed[e] : summed), 0.0f);
  };
  for (int64_t e = 0; e < elements; ++e) {
    new_[e] = sum(log_probs_, e);
    old_[e] = sum(input.old_log_probs, e);
    behaviour_[e] = sum(input.behaviour_log_probs, e);
    advantages_[e] = input.advantages[advantages == per_sample_ ? e : e / per_sample_];
  }
}

// Gradients with respect to the log-probabilities of the tokens, in gradients_, and where the KL is penalized in closed
// form, with respect to that, in kl_gradients_.
LossReport PolicyLoss::token_loss(const LossInput& input, const LossTotals& totals, const LossSettings& settings) {
  const auto samples = static_cast<double>(input.head.samples);
  const double share = samples * (1.0 / static_cast<double>(totals.samples));
  const bool measured = !input.behaviour_parameters.empty();
  const double kl = measured ? measure_kl(input, totals) / share : 0.0;
  token_offsets(input.head.samples, input.offsets, per_sample_, offsets_);
  token_lags(input.lags, per_sample_, lags_);
  gradients_.resize(new_.size());
  kl_gradients_.resize(exact_kl_ && measured ? new_.size() : 0);
  LossReport report = tokens_.compute({.count = samples,
                                       .share = share,
                                       .log_probs = new_,
                                       .old_log_probs = old_,
                                       .behaviour = behaviour_,
                                       .advantages = advantages_,
                                       .rollout_weights = input.rollout_weights,
                                       .kept = input.kept,
                                       .offsets = offsets_,
                                       .lags = lags_,
                                       .mean_entropy = mean_of_samples(entropy_),
                                       .exact_kl = measured ? kl_ : std::span<const float>()},
                                      totals.counts, settings, {.log_probs = gradients_, .exact_kl = kl_gradients_});
  report.kl_exact = kl;
  return report;
}

// KL(behaviour || current) of each token in kl_, in closed form; the sum over those that count, divided as in the
// minibatch's mean.
double PolicyLoss::measure_kl(const LossInput& input, const LossTotals& totals) {
  decision_kl_.resize(log_probs_.size());
  head_.kl(input.head, input.behaviour_parameters, decision_kl_);
  const auto summed = static_cast<int64_t>(head_.decisions() / per_sample_);
  kl_.resize(new_.size());
  double sum = 0;
  for (size_t e = 0; e < kl_.size(); ++e) {
    const auto first = decision_kl_.begin() + static_cast<int64_t>(e) * summed;
    kl_[e] = std::accumulate(first, first + summed, 0.0f);
    if (input.kept.empty() || input.kept[e]) sum += kl_[e];
  }
  return totals.counts.tokens == 0 ? 0.0 : sum / totals.counts.tokens;
}

// To each decision the number of its token, in decision_gradients_.
std::span<const float> PolicyLoss::for_decisions(const LossInput& input, std::span<const float> gradients) {
  const int64_t decisions = head_.decisions(), summed = decisions / per_sample_;
  decision_gradients_.resize(input.head.samples * decisions);
  for (size_t e = 0; e < gradients.size(); ++e)
    std::fill_n(decision_gradients_.begin() + static_cast<int64_t>(e) * summed, summed, gradients[e]);
  return decision_gradients_;
}

// The closed form of the KL depends on the parameters themselves, not on the log-probabilities of actions.
void PolicyLoss::backward(const LossInput& input, double entropy_weight, double kl_coef, LossGradients out) {
  head_.backward(input.head, input.actions, for_decisions(input, gradients_), static_cast<float>(entropy_weight),
                 scratch_, out.outputs, out.log_std);
  if (exact_kl_ && kl_coef != 0.0)
    head_.add_kl_gradients(input.head, input.behaviour_parameters, for_decisions(input, kl_gradients_), out.outputs,
                           out.log_std);
}

}  // namespace troupe
