#include "models/policy_loss.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "runtime/errors.h"

namespace troupe {

namespace {

constexpr float kLargestLogRatio = 20.0f;

double mean_of(std::span<const float> x) {
  double sum = 0;
  for (float value : x) sum += value;
  return x.empty() ? 0.0 : sum / static_cast<double>(x.size());
}

double weighted(double a, double weight_a, double b, double weight_b) {
  const double total = weight_a + weight_b;
  return total == 0 ? 0.0 : (a * weight_a + b * weight_b) / total;
}

// A surrogate with those of the run file's bounds that it has.
Surrogate configured_surrogate(const AlgorithmConfig& config) {
  Surrogate surrogate = make_surrogate(config.surrogate);
  for (const auto& [key, value] : {std::pair{"clip_low", config.clip_low}, std::pair{"clip_high", config.clip_high},
                                   std::pair{"dual_clip", config.dual_clip}})
    if (surrogate.parameters.has(key)) surrogate.parameters.set("algorithm", key, value);
  return surrogate;
}

bool per_decision_ratio(const std::string& name) {
  if (name == "joint") return false;
  if (name == "per_dimension") return true;
  throw ConfigError("algorithm.ratio: \"" + name + "\", expected one of: joint, per_dimension");
}

}  // namespace

void LossReport::merge(const LossReport& other) {
  const double a = rows, b = other.rows;
  policy_loss = weighted(policy_loss, a, other.policy_loss, b);
  value_loss = weighted(value_loss, a, other.value_loss, b);
  entropy = weighted(entropy, a, other.entropy, b);
  loss = weighted(loss, a, other.loss, b);
  rows += b;

  SurrogateDiagnostics& mine = diagnostics;
  const SurrogateDiagnostics& theirs = other.diagnostics;
  const double n = mine.count, m = theirs.count;
  for (auto member :
       {&SurrogateDiagnostics::kl_k1, &SurrogateDiagnostics::kl_k2, &SurrogateDiagnostics::kl_k3,
        &SurrogateDiagnostics::clip_fraction, &SurrogateDiagnostics::clip_fraction_lower,
        &SurrogateDiagnostics::outside_fraction, &SurrogateDiagnostics::dead_gradient_fraction,
        &SurrogateDiagnostics::ess, &SurrogateDiagnostics::ess_clamped, &SurrogateDiagnostics::ratio_mean})
    mine.*member = weighted(mine.*member, n, theirs.*member, m);
  mine.ratio_max = std::max(mine.ratio_max, theirs.ratio_max);
  mine.count += m;
}

PolicyLoss::PolicyLoss(const AlgorithmConfig& config, const Head& head)
    : head_(head),
      config_(config),
      surrogate_(configured_surrogate(config)),
      value_params_{find_value_loss(config.value_loss), static_cast<float>(config.value_clip),
                    static_cast<float>(config.huber_delta)},
      per_decision_(per_decision_ratio(config.ratio)) {
  if (config.dual_clip != 0.0 && config.dual_clip <= 1.0)
    throw ConfigError("algorithm.dual_clip: " + std::to_string(config.dual_clip) + ", expected 0 (off) or more than 1");
}

LossReport PolicyLoss::compute(const LossInput& input, int64_t total_rows, double entropy_coef, bool train_policy,
                               LossGradients out) {
  const int64_t rows = input.head.rows;
  TROUPE_CHECK(total_rows >= rows && rows >= 1, total_rows, rows);
  LossReport report;
  report.rows = static_cast<double>(rows);
  const double weight = 1.0 / static_cast<double>(total_rows);
  log_probs_.resize(rows * head_.decisions());
  entropy_.resize(rows);
  head_.evaluate(input.head, input.actions, log_probs_, entropy_, scratch_);
  report.entropy = mean_of(entropy_);
  gather_elements(input);
  report.diagnostics =
      diagnostics_of(surrogate_({.log_probs = new_, .old_log_probs = old_, .advantages = advantages_}, {}));
  if (train_policy) {
    report.loss = policy_gradients(input, weight, entropy_coef, out, report);
  } else {
    std::ranges::fill(out.outputs, 0.0f);
  }
  loss_.resize(rows);
  value_loss(input.values, input.old_values, input.returns, {}, value_params_, loss_, out.values);
  report.value_loss = mean_of(loss_);
  report.loss += config_.value_coef * report.value_loss;
  const auto value_weight = static_cast<float>(config_.value_coef * weight);
  for (float& gradient : out.values) gradient *= value_weight;
  return report;
}

// One element per importance ratio: the decisions, or the rows with their decisions' log-probabilities summed.
void PolicyLoss::gather_elements(const LossInput& input) {
  const int64_t rows = input.head.rows, decisions = head_.decisions();
  const int64_t per_row = per_decision_ ? decisions : 1, summed = per_decision_ ? 1 : decisions;
  for (auto* buffer : {&new_, &old_, &advantages_}) buffer->resize(rows * per_row);
  for (int64_t e = 0; e < rows * per_row; ++e) {
    new_[e] = std::accumulate(log_probs_.data() + e * summed, log_probs_.data() + (e + 1) * summed, 0.0f);
    old_[e] =
        std::accumulate(input.old_log_probs.data() + e * summed, input.old_log_probs.data() + (e + 1) * summed, 0.0f);
    advantages_[e] = input.advantages[e / per_row];
  }
}

double PolicyLoss::policy_gradients(const LossInput& input, double weight, double entropy_coef, LossGradients out,
                                    LossReport& report) {
  const size_t elements = new_.size();
  const int64_t decisions = head_.decisions(), rows = input.head.rows;
  loss_.resize(elements);
  gradients_.resize(elements);
  surrogate_({.log_probs = new_, .old_log_probs = old_, .advantages = advantages_}, {loss_, gradients_});
  report.policy_loss = mean_of(loss_);
  double loss = report.policy_loss - entropy_coef * report.entropy;
  if (config_.kl_coef != 0.0) {
    // k3 of KL(behaviour || current) is r - 1 - log r, and its gradient in log r is r - 1.
    loss += config_.kl_coef * report.diagnostics.kl_k3;
    const auto coefficient = static_cast<float>(config_.kl_coef);
    for (size_t e = 0; e < elements; ++e)
      gradients_[e] += coefficient * std::expm1(std::clamp(new_[e] - old_[e], -kLargestLogRatio, kLargestLogRatio));
  }
  const int64_t per_row = per_decision_ ? decisions : 1;
  const auto element_weight = static_cast<float>(weight / static_cast<double>(per_row));
  decision_gradients_.resize(rows * decisions);
  for (int64_t i = 0; i < rows * decisions; ++i)
    decision_gradients_[i] = gradients_[per_decision_ ? i : i / decisions] * element_weight;
  head_.backward(input.head, input.actions, decision_gradients_, static_cast<float>(-entropy_coef * weight), scratch_,
                 out.outputs, out.log_std);
  return loss;
}

}  // namespace troupe
