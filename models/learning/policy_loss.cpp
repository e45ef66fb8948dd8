#include "models/learning/policy_loss.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

double mean_of_samples(std::span<const float> x) {
  double sum = 0;
  for (float value : x) sum += value;
  return x.empty() ? 0.0 : sum / static_cast<double>(x.size());
}

double weighted(double a, double weight_a, double b, double weight_b) {
  const double total = weight_a + weight_b;
  return total == 0 ? 0.0 : (a * weight_a + b * weight_b) / total;
}

}  // namespace

void token_offsets(int64_t samples, std::span<const int64_t> offsets, int64_t per_sample, std::vector<int64_t>& out) {
  out.clear();
  for (const int64_t offset : offsets) out.push_back((offset - offsets.front()) * per_sample);
  if (out.empty()) out = {0, samples * per_sample};
  TROUPE_CHECK(out.back() == samples * per_sample, out.back(), samples, per_sample);
}

LossTotals count_loss(int64_t samples, std::span<const int64_t> offsets, int64_t per_sample,
                      std::span<const uint8_t> kept) {
  std::vector<int64_t> tokens;
  token_offsets(samples, offsets, per_sample, tokens);
  return {samples, count_tokens(TokenSequences(tokens), kept)};
}

void LossReport::add_means(const LossReport& other) {
  const double a = samples, b = other.samples;
  for (auto member : {&LossReport::policy_loss, &LossReport::value_loss, &LossReport::value_clip_fraction,
                      &LossReport::entropy, &LossReport::kl, &LossReport::kl_exact, &LossReport::loss})
    this->*member = weighted(this->*member, a, other.*member, b);
  samples += b;
}

void LossReport::merge(const LossReport& other) {
  add_means(other);
  surrogate.merge(other.surrogate);
}

void LossReport::add_step(const LossReport& step) {
  add_means(step);
  SurrogateDiagnostics& mine = diagnostics;
  const SurrogateDiagnostics theirs = diagnostics_of(step.surrogate);
  const double n = mine.count, m = theirs.count;
  for (auto member : {&SurrogateDiagnostics::kl_k1, &SurrogateDiagnostics::kl_k2, &SurrogateDiagnostics::kl_k3,
                      &SurrogateDiagnostics::clip_fraction, &SurrogateDiagnostics::clip_fraction_lower,
                      &SurrogateDiagnostics::outside_fraction, &SurrogateDiagnostics::dead_gradient_fraction,
                      &SurrogateDiagnostics::saturated_fraction, &SurrogateDiagnostics::ess,
                      &SurrogateDiagnostics::ess_clamped, &SurrogateDiagnostics::ratio_mean})
    mine.*member = weighted(mine.*member, n, theirs.*member, m);
  mine.ratio_max = std::max(mine.ratio_max, theirs.ratio_max);
  mine.ratio_min = n == 0 ? theirs.ratio_min : m == 0 ? mine.ratio_min : std::min(mine.ratio_min, theirs.ratio_min);
  mine.count += m;
}

PolicyLoss::PolicyLoss(const AlgorithmChoice& choice, double value_coef, double length, const Head& head)
    : head_(head),
      choice_(choice),
      value_coef_(value_coef),
      length_(choice.aggregation_length.value_or(length)),
      per_sample_(choice.per_decision ? head.decisions() : 1) {}

LossReport PolicyLoss::compute(const LossInput& input, const LossTotals& totals, const LossSettings& settings,
                               LossGradients out) {
  const int64_t samples = input.head.samples;
  TROUPE_CHECK(totals.samples >= samples && samples >= 1, totals.samples, samples);
  LossReport report;
  report.samples = static_cast<double>(samples);
  const double weight = 1.0 / static_cast<double>(totals.samples);
  const double share = report.samples * weight;
  log_probs_.resize(samples * head_.decisions());
  entropy_.resize(samples);
  head_.evaluate(input.head, input.actions, log_probs_, entropy_, scratch_);
  report.entropy = mean_of_samples(entropy_);
  gather_elements(input);
  weigh_sequences(input, totals);
  report.surrogate = run_surrogate(input, settings);
  if (!input.behaviour_parameters.empty()) report.kl_exact = measure_kl(input, totals) / share;
  const bool exact = choice_.kl.kind == KlKind::full;
  if (settings.train_policy) {
    report.policy_loss = aggregate_loss(input, loss_) / share;
    report.loss = report.policy_loss - settings.entropy_coef * report.entropy;
    if (settings.kl_coef != 0.0) {
      TROUPE_CHECK(!exact || !input.behaviour_parameters.empty());
      report.kl = (exact ? aggregate_loss(input, kl_) : add_kl(input, settings.kl_coef)) / share;
      report.loss += settings.kl_coef * report.kl;
    }
    backward(input, -settings.entropy_coef * weight, out);
    if (exact && settings.kl_coef != 0.0) add_exact_kl_gradients(input, settings.kl_coef, out);
  } else {
    std::ranges::fill(out.outputs, 0.0f);
  }
  loss_.resize(samples);
  report.value_clip_fraction =
      value_loss(input.values, input.old_values, input.returns, {}, choice_.value_loss, loss_, out.values);
  report.value_loss = mean_of_samples(loss_);
  report.loss += value_coef_ * report.value_loss;
  const auto value_weight = static_cast<float>(value_coef_ * weight);
  for (float& gradient : out.values) gradient *= value_weight;
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

void PolicyLoss::weigh_sequences(const LossInput& input, const LossTotals& totals) {
  token_offsets(input.head.samples, input.offsets, per_sample_, offsets_);
  sequence_weights_.resize(offsets_.size() - 1);
  const Normalizers normalizers{
      .tokens = totals.counts.tokens, .sequences = totals.counts.sequences, .length = length_};
  aggregation_weights(choice_.aggregation, TokenSequences(offsets_), input.kept, normalizers, sequence_weights_);
}

// Losses and gradients of the tokens, without the weights of their sequences.
SurrogateSums PolicyLoss::run_surrogate(const LossInput& input, const LossSettings& settings) {
  loss_.resize(new_.size());
  gradients_.resize(new_.size());
  SurrogateInput in;
  in.log_probs = new_;
  in.old_log_probs = old_;
  in.advantages = advantages_;
  in.mask = input.kept;
  in.rollout_weights = input.rollout_weights;
  in.sequences = TokenSequences(offsets_);
  in.key = settings.key;
  return choice_.surrogate(in, settings.train_policy ? SurrogateOutput{loss_, gradients_} : SurrogateOutput{});
}

double PolicyLoss::aggregate_loss(const LossInput& input, std::span<const float> loss) const {
  return aggregate(loss, TokenSequences(offsets_), input.kept, sequence_weights_);
}

// Adds the gradient of the penalty; returns its aggregate. The samples come from the behaviour policy, so they estimate
// KL(behaviour || current) without bias. The current policy is the second argument, and the derivative with respect to
// it has the opposite sign.
double PolicyLoss::add_kl(const LossInput& input, double kl_coef) {
  kl_.resize(new_.size());
  kl_gradients_.resize(new_.size());
  kl_estimate(choice_.kl, behaviour_, new_, input.kept, kl_, kl_gradients_);
  const auto coefficient = static_cast<float>(kl_coef);
  for (size_t e = 0; e < new_.size(); ++e) gradients_[e] -= coefficient * kl_gradients_[e];
  return aggregate_loss(input, kl_);
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

// The closed form depends on the parameters themselves, not on the log-probabilities of actions.
void PolicyLoss::add_exact_kl_gradients(const LossInput& input, double kl_coef, LossGradients out) {
  const int64_t summed = head_.decisions() / per_sample_;
  for (size_t i = 0; i < sequence_weights_.size(); ++i)
    for (int64_t e = offsets_[i]; e < offsets_[i + 1]; ++e) {
      const bool counts = input.kept.empty() || input.kept[e];
      std::fill_n(decision_gradients_.begin() + e * summed, summed,
                  counts ? static_cast<float>(kl_coef * sequence_weights_[i]) : 0.0f);
    }
  head_.add_kl_gradients(input.head, input.behaviour_parameters, decision_gradients_, out.outputs, out.log_std);
}

void PolicyLoss::backward(const LossInput& input, double entropy_weight, LossGradients out) {
  const int64_t decisions = head_.decisions(), summed = decisions / per_sample_;
  decision_gradients_.resize(input.head.samples * decisions);
  for (size_t i = 0; i < sequence_weights_.size(); ++i) {
    const auto weight = static_cast<float>(sequence_weights_[i]);
    for (int64_t e = offsets_[i]; e < offsets_[i + 1]; ++e)
      std::fill_n(decision_gradients_.begin() + e * summed, summed, gradients_[e] * weight);
  }
  head_.backward(input.head, input.actions, decision_gradients_, static_cast<float>(entropy_weight), scratch_,
                 out.outputs, out.log_std);
}

}  // namespace troupe
