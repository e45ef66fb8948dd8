#include "models/learning/metrics.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace troupe {

namespace {

using Value = std::optional<double>;
using Figures = UpdateFigures;

constexpr Summary kMean = Summary::mean, kLast = Summary::last, kSum = Summary::sum, kSmallest = Summary::smallest,
                  kLargest = Summary::largest;

double mean_of(std::span<const float> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The value of an expression in `x` where what it is read from is there.
template <class Read>
Value of_targets(const Figures& f, Read read) {
  return f.targets ? Value(read(*f.targets)) : Value();
}
template <class Read>
Value of_correction(const Figures& f, Read read) {
  return f.targets && f.targets->correction ? Value(read(*f.targets->correction)) : Value();
}
template <class Read>
Value of_loss(const Figures& f, Read read) {
  return f.epoch.steps > 0 ? Value(read(f.epoch.loss)) : Value();
}

// Functions for the table, each from a member.
template <double OffPolicyMetrics::* member>
Value correction(const Figures& f) {
  return of_correction(f, [](const OffPolicyMetrics& m) { return m.*member; });
}
template <double SurrogateDiagnostics::* member>
Value diagnostic(const Figures& f) {
  return of_loss(f, [](const LossReport& loss) { return loss.diagnostics.*member; });
}
template <double LossReport::* member>
Value loss(const Figures& f) {
  return of_loss(f, [](const LossReport& report) { return report.*member; });
}

Value saturated(const Figures& f) {
  return f.choice.surrogate.entry->name == "sapo" ? diagnostic<&SurrogateDiagnostics::saturated_fraction>(f) : Value();
}

using Diagnostics = SurrogateDiagnostics;
using Off = OffPolicyMetrics;

constexpr std::array kMetrics = {
    Metric{"policy_lr", kLast, [](const Figures& f) { return Value(f.settings.rates.policy); }},
    Metric{"value_lr", kLast, [](const Figures& f) { return Value(f.settings.rates.value); }},
    Metric{"skipped_steps", kSum, [](const Figures& f) { return Value(static_cast<double>(f.skipped)); }},
    Metric{"log_std", kLast, [](const Figures& f) { return f.log_std.empty() ? Value() : Value(mean_of(f.log_std)); }},
    Metric{"advantage_mean", kMean,
           [](const Figures& f) { return of_targets(f, [](auto& t) { return t.advantages.mean; }); }},
    Metric{"advantage_std", kMean,
           [](const Figures& f) { return of_targets(f, [](auto& t) { return t.advantages.stddev(); }); }},
    Metric{"return_mean", kMean,
           [](const Figures& f) { return of_targets(f, [](auto& t) { return t.returns.mean; }); }},
    Metric{"return_std", kMean,
           [](const Figures& f) { return of_targets(f, [](auto& t) { return t.returns.stddev(); }); }},
    Metric{"explained_variance", kMean,
           [](const Figures& f) { return of_targets(f, [](auto& t) { return t.explained_variance; }); }},
    Metric{"kl_coef", kLast,
           [](const Figures& f) { return f.penalizes_kl ? Value(f.settings.loss.kl_coef) : Value(); }},
    Metric{"kl_penalty", kMean, [](const Figures& f) { return f.penalizes_kl ? loss<&LossReport::kl>(f) : Value(); }},
    Metric{
        "kl_exact", kMean,
        [](const Figures& f) { return f.choice.kl.kind == KlKind::full ? loss<&LossReport::kl_exact>(f) : Value(); }},
    Metric{"policy_loss", kMean, loss<&LossReport::policy_loss>},
    Metric{"value_loss", kMean, loss<&LossReport::value_loss>},
    Metric{"value_clip_fraction", kMean,
           [](const Figures& f) {
             return f.choice.value_loss.clip > 0 ? loss<&LossReport::value_clip_fraction>(f) : Value();
           }},
    Metric{"entropy", kMean, loss<&LossReport::entropy>},
    Metric{"kl", kMean, diagnostic<&Diagnostics::kl_k3>},
    Metric{"kl_k1", kMean, diagnostic<&Diagnostics::kl_k1>},
    Metric{"kl_k2", kMean, diagnostic<&Diagnostics::kl_k2>},
    Metric{"clip_fraction", kMean, diagnostic<&Diagnostics::clip_fraction>},
    Metric{"clip_fraction_lower", kMean, diagnostic<&Diagnostics::clip_fraction_lower>},
    Metric{"outside_fraction", kMean, diagnostic<&Diagnostics::outside_fraction>},
    Metric{"dead_gradient_fraction", kMean, diagnostic<&Diagnostics::dead_gradient_fraction>},
    Metric{"saturated_fraction", kMean, saturated},
    Metric{"ess", kMean, diagnostic<&Diagnostics::ess>},
    Metric{"ess_clamped", kMean, diagnostic<&Diagnostics::ess_clamped>},
    Metric{"ratio_mean", kMean, diagnostic<&Diagnostics::ratio_mean>},
    Metric{"ratio_max", kLargest, diagnostic<&Diagnostics::ratio_max>},
    Metric{"ratio_min", kSmallest, diagnostic<&Diagnostics::ratio_min>},
    Metric{"grad_norm", kMean,
           [](const Figures& f) {
             return of_loss(f, [&](auto&) { return f.epoch.grad_norm_sum / static_cast<double>(f.epoch.steps); });
           }},
    Metric{"rollout_kl", kMean, correction<&Off::kl>},
    Metric{"rollout_kl_k3", kMean, correction<&Off::k3_kl>},
    Metric{"rollout_weight_mean", kMean, correction<&Off::weight_mean>},
    Metric{"rollout_weight_std", kMean, correction<&Off::weight_std>},
    Metric{"rollout_weight_max", kLargest, correction<&Off::weight_max>},
    Metric{"rollout_weight_min", kSmallest, correction<&Off::weight_min>},
    Metric{"rollout_weight_above", kMean, correction<&Off::weight_high_fraction>},
    Metric{"rollout_weight_below", kMean, correction<&Off::weight_low_fraction>},
    Metric{"rollout_chi2", kMean, correction<&Off::chi2_token>},
    Metric{"rollout_chi2_sequences", kMean, correction<&Off::chi2_seq>},
    Metric{"rollout_ppl_ratio", kMean, correction<&Off::ppl_ratio>},
    Metric{"rollout_log_ppl_diff", kMean, correction<&Off::log_ppl_diff>},
    Metric{"rollout_ess", kMean, correction<&Off::ess>},
    Metric{"rollout_rejected", kMean, correction<&Off::rejected_token_fraction>},
    Metric{"rollout_rejected_sequences", kMean, correction<&Off::rejected_sequence_fraction>},
};

}  // namespace

std::span<const Metric> metric_table() { return kMetrics; }

std::map<std::string, double> metrics_of(const UpdateFigures& figures) {
  std::map<std::string, double> metrics;
  for (const Metric& metric : kMetrics)
    if (const Value value = metric.value(figures)) metrics.emplace(metric.name, *value);
  return metrics;
}

Summary summary_of(std::string_view name) {
  const auto found = std::ranges::find(kMetrics, name, &Metric::name);
  return found == kMetrics.end() ? kMean : found->summary;
}

}  // namespace troupe
