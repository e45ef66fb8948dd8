#include "models/learning/metrics.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "models/learning/answer_metrics.h"
#include "models/learning/lag_metrics.h"

namespace troupe {

namespace {

using Value = std::optional<double>;
using Figures = UpdateFigures;

constexpr Summary kMean = Summary::mean, kLast = Summary::last, kSum = Summary::sum, kSmallest = Summary::smallest,
                  kLargest = Summary::largest;

double mean_of(std::span<const float> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The result of `read`; nothing if the figures that it reads are missing, or are of no sample or token at all.
template <class Read>
Value of_targets(const Figures& f, Read read) {
  return f.targets && f.targets->advantages.count > 0 ? Value(read(*f.targets)) : Value();
}
template <class Read>
Value of_correction(const Figures& f, Read read) {
  if (f.lag && f.lag->correction) return f.lag->all.tokens > 0 ? Value(read(*f.lag->correction)) : Value();
  return of_targets(f, [&](const TargetFigures& t) { return t.correction ? Value(read(*t.correction)) : Value(); });
}
template <class Read>
Value of_loss(const Figures& f, Read read) {
  return f.epoch.steps > 0 ? Value(read(f.epoch.loss)) : Value();
}

// Functions for the table, each of which reads one member.
template <double OffPolicyMetrics::* member>
Value correction(const Figures& f) {
  return of_correction(f, [](const OffPolicyMetrics& m) { return m.*member; });
}
template <double SurrogateDiagnostics::* member>
Value diagnostic(const Figures& f) {
  return of_loss(
      f, [](const LossReport& loss) { return loss.diagnostics.count > 0 ? Value(loss.diagnostics.*member) : Value(); });
}
Value surrogate_kl(const Figures& f) {
  return of_loss(f, [](const LossReport& loss) { return loss.kl_count > 0 ? Value(loss.diagnostics.kl_k3) : Value(); });
}
template <double LossReport::* member>
Value loss(const Figures& f) {
  return of_loss(f, [](const LossReport& report) { return report.*member; });
}

template <double BalanceFigures::* member>
Value balance(const Figures& f) {
  return f.balance && f.balance->count > 0 ? Value((*f.balance).*member) : Value();
}
template <double PolicyDistance::* member>
Value distance(const Figures& f) {
  return f.lag && f.lag->all.tokens > 0 ? Value(f.lag->all.*member) : Value();
}
Value rollout_kl(const Figures& f) {
  return f.lag ? distance<&PolicyDistance::kl>(f) : correction<&OffPolicyMetrics::kl>(f);
}
template <double LagShares::* member>
Value rollout_lag(const Figures& f) {
  return f.lag && f.lag->of_batch.tokens > 0 ? Value(f.lag->of_batch.*member) : Value();
}

// The coefficient is in use whether or not there is a token.
Value reference_coef(const Figures& f) {
  return f.targets && f.targets->reference ? Value(f.targets->reference->coef) : Value();
}
Value reference_kl(const Figures& f) {
  return of_targets(f, [](const TargetFigures& t) { return t.reference ? Value(t.reference->kl) : Value(); });
}

Value saturated(const Figures& f) {
  return f.choice.surrogate.entry->name == "sapo" ? diagnostic<&SurrogateDiagnostics::saturated_fraction>(f) : Value();
}

using Diagnostics = SurrogateDiagnostics;
using Distance = PolicyDistance;
using Off = OffPolicyMetrics;
using Balance = BalanceFigures;

constexpr const char* kSettings = "Settings in effect and skipped steps";
constexpr const char* kTargets = "Advantages and value targets";
constexpr const char* kLosses = "Losses and the policy";
constexpr std::string_view kLags = "Rollout and training";
constexpr std::string_view kCorrections = "Rollout correction";
constexpr const char* kBalance = "Micro-batches";

constexpr const char* kAlways = "always";
constexpr const char* kCritic = "with a value function; in token runs with `model.critic`";
constexpr const char* kContinuous = "with continuous actions";
constexpr const char* kPenalty = "if `algorithm.kl_coef` is above 0";
constexpr const char* kFullKl = "if `algorithm.kl` is `full`";
constexpr const char* kValueClip = "if `algorithm.value_clip` is above 0";
constexpr const char* kSapo = "if `algorithm.surrogate` is `sapo`";
constexpr const char* kReference = "if `reference.model` is set";
constexpr const char* kTokenRuns = "in token runs";
constexpr const char* kCorrected = "if `algorithm.rollout_correction` is set";
constexpr const char* kRolloutKl = "in token runs, and if `algorithm.rollout_correction` is set";

// Units.
constexpr const char* kNumber = "number";  // without a unit
constexpr const char* kFraction = "0 to 1";
constexpr const char* kNats = "nats";
constexpr const char* kTokens = "tokens";
constexpr const char* kRewards = "scaled rewards";

constexpr std::array kMetrics = {
    Metric{kSettings, "policy_lr", kNumber, kLast, kAlways, "learning rate of the policy, after schedule and warm-up",
           [](const Figures& f) { return Value(f.settings.rates.policy); }, shown("policy learning rate")},
    Metric{kSettings, "value_lr", kNumber, kLast, kCritic,
           "learning rate of the value function, after schedule and warm-up",
           [](const Figures& f) { return f.critic ? Value(f.settings.rates.value) : Value(); },
           shown("value learning rate")},
    Metric{kSettings, "skipped_steps", "optimizer steps", kSum, kAlways,
           "skipped because a loss or a gradient was not finite; the log warns of the first update with one",
           [](const Figures& f) { return Value(static_cast<double>(f.skipped)); },
           shown("optimizer steps skipped", Better::down)},
    Metric{kSettings, "log_std", kNumber, kLast, kContinuous,
           "logarithm of the standard deviation of the actions, mean over their dimensions",
           [](const Figures& f) { return f.log_std.empty() ? Value() : Value(mean_of(f.log_std)); },
           shown("log of the action deviation")},
    Metric{kSettings, "kl_coef", kNumber, kLast, kPenalty, "weight of the KL penalty in the loss",
           [](const Figures& f) { return f.penalizes_kl ? Value(f.settings.loss.kl_coef) : Value(); },
           shown("weight of the KL penalty")},
    Metric{kSettings, "reference_kl_coef", kNumber, kLast, kReference,
           "weight of the KL to the reference, in the rewards or in the loss", reference_coef,
           shown("weight of the reference KL")},

    Metric{kTargets, "advantage_mean", kRewards, kMean, kAlways,
           "mean advantage before whitening; estimators that divide by a standard deviation, such as `grpo`, give "
           "numbers without a unit",
           [](const Figures& f) { return of_targets(f, [](auto& t) { return t.advantages.mean; }); }},
    Metric{kTargets, "advantage_std", kRewards, kMean, kAlways, "standard deviation of the same advantages",
           [](const Figures& f) { return of_targets(f, [](auto& t) { return t.advantages.stddev(); }); }},
    Metric{kTargets, "return_mean", kRewards, kMean, kAlways, "mean of the value targets",
           [](const Figures& f) { return of_targets(f, [](auto& t) { return t.returns.mean; }); }},
    Metric{kTargets, "return_std", kRewards, kMean, kAlways, "standard deviation of the value targets",
           [](const Figures& f) { return of_targets(f, [](auto& t) { return t.returns.stddev(); }); }},
    Metric{
        kTargets, "explained_variance", "at most 1", kMean, kCritic,
        "1 - Var(R - V) / Var(R) of the value targets R and the values V that came with the rollouts, from the "
        "policy that acted; with the estimator `vtrace`, and in token runs, of the values at the start of the update",
        [](const Figures& f) {
          return f.critic ? of_targets(f, [](auto& t) { return t.explained_variance; }) : Value();
        },
        shown("explained variance", Better::up)},
    Metric{kTargets, "reference_kl", kNats, kMean, kReference,
           "KL(policy || reference) of the policy that sampled the answers, per token, as `reference.kl` estimates it "
           "(`full`: as `k1`)",
           reference_kl, shown("reference KL")},

    Metric{kLosses, "policy_loss", kNumber, kMean, kAlways,
           "loss of the surrogate, without the KL penalty and the entropy bonus", loss<&LossReport::policy_loss>,
           shown("policy loss")},
    Metric{kLosses, "value_loss", kNumber, kMean, kCritic,
           "loss of the value function before `algorithm.value_coef`; with `model.normalize_returns`, of normalised "
           "values",
           [](const Figures& f) { return f.critic ? loss<&LossReport::value_loss>(f) : Value(); },
           shown("value loss", Better::down)},
    Metric{kLosses, "value_clip_fraction", kFraction, kMean, kValueClip,
           "share of samples whose value loss is that of the clipped value",
           [](const Figures& f) {
             return f.choice.value_loss.clip > 0 ? loss<&LossReport::value_clip_fraction>(f) : Value();
           }},
    Metric{kLosses, "entropy", kNats, kMean, kAlways,
           "entropy of the policy per sample, summed over the executed components of the action; in token runs per "
           "token, aggregated as the loss is (`algorithm.aggregation`)",
           loss<&LossReport::entropy>, shown("entropy")},
    Metric{kLosses, "kl", kNats, kMean, kAlways,
           "mean of r - 1 - log r: estimate of the divergence of the trained policy from the old one, never negative; "
           "`algorithm.target_kl` is compared with it",
           surrogate_kl, shown("KL of an update")},
    Metric{kLosses, "kl_k1", kNats, kMean, kAlways,
           "mean of -log r: another estimate of the same divergence, noisier, may be negative",
           diagnostic<&Diagnostics::kl_k1>},
    Metric{kLosses, "kl_k2", kNats, kMean, kAlways,
           "mean of (log r)^2 / 2: another estimate of the same divergence, biased", diagnostic<&Diagnostics::kl_k2>},
    Metric{kLosses, "kl_penalty", kNats, kMean, kPenalty,
           "the KL penalty before its weight, as estimated by the method of `algorithm.kl`",
           [](const Figures& f) { return f.penalizes_kl ? loss<&LossReport::kl>(f) : Value(); }, shown("KL penalty")},
    Metric{
        kLosses, "kl_exact", kNats, kMean, kFullKl,
        "KL(behaviour || current) in closed form; 0 if `algorithm.kl_coef` is 0",
        [](const Figures& f) { return f.choice.kl.kind == KlKind::full ? loss<&LossReport::kl_exact>(f) : Value(); }},
    Metric{kLosses, "clip_fraction", kFraction, kMean, kAlways,
           "share of tokens for which the clip of the surrogate takes effect; 0 with a surrogate that does not clip",
           diagnostic<&Diagnostics::clip_fraction>, shown("clipped")},
    Metric{kLosses, "clip_fraction_lower", kFraction, kMean, kAlways,
           "share of tokens for which `dual_clip` takes effect (A < 0 and r > dual_clip); with `geo_mean`, of tokens "
           "with A < 0 and log r outside the bounds",
           diagnostic<&Diagnostics::clip_fraction_lower>},
    Metric{kLosses, "outside_fraction", kFraction, kMean, kAlways,
           "share of tokens with r outside the clip range, whatever the sign of A",
           diagnostic<&Diagnostics::outside_fraction>, shown("outside the clip range")},
    Metric{kLosses, "dead_gradient_fraction", kFraction, kMean, kAlways,
           "share of tokens for which the gradient of the surrogate `clip` would be 0, whichever surrogate trains",
           diagnostic<&Diagnostics::dead_gradient_fraction>, shown("no gradient", Better::down)},
    Metric{kLosses, "saturated_fraction", kFraction, kMean, kSapo,
           "share of tokens whose gate 4 p (1 - p) is below `saturation`", saturated},
    Metric{kLosses, "ess", kFraction, kMean, kAlways,
           "effective sample size (sum r)^2 / (n sum r^2) of n tokens: 1 on policy, 1/n if one r is far above the rest",
           diagnostic<&Diagnostics::ess>, shown("ESS of the importance ratios", Better::up)},
    Metric{kLosses, "ess_clamped", kFraction, kMean, kAlways,
           "the same with r clamped to the clip range; near 1 by construction", diagnostic<&Diagnostics::ess_clamped>},
    Metric{kLosses, "ratio_mean", kNumber, kMean, kAlways, "mean of r; its expectation is 1",
           diagnostic<&Diagnostics::ratio_mean>},
    Metric{kLosses, "ratio_max", kNumber, kLargest, kAlways, "largest r of any step of the epoch",
           diagnostic<&Diagnostics::ratio_max>},
    Metric{kLosses, "ratio_min", kNumber, kSmallest, kAlways, "smallest r of any step of the epoch",
           diagnostic<&Diagnostics::ratio_min>},
    Metric{kLosses, "grad_norm", kNumber, kMean, kAlways,
           "norm of the gradient before it is clipped to `trainer.max_grad_norm`",
           [](const Figures& f) {
             return of_loss(f, [&](auto&) { return f.epoch.grad_norm_sum / static_cast<double>(f.epoch.steps); });
           },
           shown("gradient norm before the clip")},

    // Of the tokens of answers.
    Metric{
        kLags, "rollout_kl", kNats, kMean, kRolloutKl,
        "mean of log p_rollout - log p_start over tokens: estimate of the divergence of the policy at the start of the "
        "update from the one that sampled; 0 if they are the same, may be negative",
        rollout_kl, shown("KL of the rollouts")},
    Metric{kLags, "rollout_ratio_mean", kNumber, kMean, kTokenRuns,
           "mean over tokens of p_start / p_rollout, before the first optimizer step; 1 if both policies are the same",
           distance<&Distance::ratio_mean>},
    Metric{kLags, "rollout_ratio_max", kNumber, kLargest, kTokenRuns, "the largest of these ratios",
           distance<&Distance::ratio_max>},
    Metric{kLags, "rollout_ratio_min", kNumber, kSmallest, kTokenRuns, "the smallest of these ratios",
           distance<&Distance::ratio_min>},
    Metric{kLags, "rollout_lag_mean", "updates", kMean, kTokenRuns,
           "mean over all tokens of the super-batch that have a loss, whether or not it was computed, of the updates "
           "from the policy that sampled the token to that at the start of the update",
           rollout_lag<&LagShares::mean>},
    Metric{kLags, "rollout_lag_max", "updates", kLargest, kTokenRuns, "the largest of these lags",
           rollout_lag<&LagShares::max>},

    Metric{kCorrections, "rollout_kl_k3", kNats, kMean, kCorrected,
           "mean of exp(l) - 1 - l: another estimate of the same, never negative", correction<&Off::k3_kl>},
    Metric{kCorrections, "rollout_weight_mean", kNumber, kMean, kCorrected, "mean of the weights before their bound",
           correction<&Off::weight_mean>},
    Metric{kCorrections, "rollout_weight_std", kNumber, kMean, kCorrected,
           "standard deviation of the weights before their bound", correction<&Off::weight_std>},
    Metric{kCorrections, "rollout_weight_max", kNumber, kLargest, kCorrected, "largest weight before its bound",
           correction<&Off::weight_max>},
    Metric{kCorrections, "rollout_weight_min", kNumber, kSmallest, kCorrected, "smallest weight before its bound",
           correction<&Off::weight_min>},
    Metric{kCorrections, "rollout_weight_above", kFraction, kMean, kCorrected,
           "share of the weights above `is_threshold`", correction<&Off::weight_high_fraction>},
    Metric{kCorrections, "rollout_weight_below", kFraction, kMean, kCorrected, "share of the weights below `is_low`",
           correction<&Off::weight_low_fraction>},
    Metric{kCorrections, "rollout_chi2", kNumber, kMean, kCorrected, "mean of exp(2 l) - 1 over tokens",
           correction<&Off::chi2_token>},
    Metric{kCorrections, "rollout_chi2_sequences", kNumber, kMean, kCorrected,
           "the same over sequences, with the sum of l", correction<&Off::chi2_seq>},
    Metric{kCorrections, "rollout_ppl_ratio", kNumber, kMean, kCorrected,
           "perplexity under the current policy divided by that under the policy that acted, mean over sequences",
           correction<&Off::ppl_ratio>},
    Metric{kCorrections, "rollout_log_ppl_diff", kNats, kMean, kCorrected,
           "difference of the logarithms of both perplexities, mean over sequences", correction<&Off::log_ppl_diff>},
    Metric{kCorrections, "rollout_ess", kFraction, kMean, kCorrected,
           "effective sample size of the weights, clamped to [1 / `is_threshold`, `is_threshold`]",
           correction<&Off::ess>, shown("ESS of the rollout weights", Better::up)},
    Metric{kCorrections, "rollout_rejected", kFraction, kMean, kCorrected, "share of tokens rejected",
           correction<&Off::rejected_token_fraction>},
    Metric{kCorrections, "rollout_rejected_sequences", kFraction, kMean, kCorrected,
           "share of sequences that lost at least one token", correction<&Off::rejected_sequence_fraction>},

    Metric{kBalance, "micro_batches", "micro-batches", kMean, kTokenRuns,
           "forward and backward passes of an update, over all its epochs but those of the value function alone "
           "(`trainer.value_epochs`)",
           balance<&Balance::count>},
    Metric{kBalance, "balance_mean", kTokens, kMean, kTokenRuns,
           "mean tokens of these micro-batches; a prompt that several answers of one share counts once",
           [](const Figures& f) { return f.balance && f.balance->count > 0 ? Value(f.balance->mean()) : Value(); }},
    Metric{kBalance, "balance_min", kTokens, kSmallest, kTokenRuns, "tokens of the smallest micro-batch",
           balance<&Balance::least>},
    Metric{kBalance, "balance_max", kTokens, kLargest, kTokenRuns,
           "tokens of the largest micro-batch, at most `trainer.micro_batch_tokens`", balance<&Balance::most>},
    Metric{kBalance, "balance_min_by_answers", kTokens, kSmallest, kTokenRuns,
           "the same as `balance_min` if as many micro-batches had been cut with equal numbers of answers",
           balance<&Balance::least_by_answers>},
    Metric{kBalance, "balance_max_by_answers", kTokens, kLargest, kTokenRuns,
           "the same as `balance_max` if as many micro-batches had been cut with equal numbers of answers",
           balance<&Balance::most_by_answers>},
};

// The whole table: the figures of answers and, by lag, those of the surrogate have groups of their own; those of the
// rollout by lag are after the others of their group.
std::vector<Metric> whole_table() {
  std::vector<Metric> result(kMetrics.begin(), kMetrics.end());
  const auto insert = [&](std::string_view before, const std::vector<Metric>& metrics) {
    result.insert(std::ranges::find(result, before, &Metric::group), metrics.begin(), metrics.end());
  };
  insert(kLosses, answer_metrics());
  insert(kLags, loss_metrics_by_lag());
  insert(kCorrections, rollout_metrics_by_lag(kLags));
  return result;
}

}  // namespace

std::span<const Metric> metric_table() {
  static const std::vector<Metric> all = whole_table();
  return all;
}

std::map<std::string, double> metrics_of(const UpdateFigures& figures) {
  std::map<std::string, double> metrics;
  for (const Metric& metric : metric_table())
    if (const Value value = metric.value(figures)) metrics.emplace(metric.name, *value);
  return metrics;
}

Summary summary_of(std::string_view name) {
  const std::span<const Metric> all = metric_table();
  const auto found = std::ranges::find(all, name, &Metric::name);
  return found == all.end() ? kMean : found->summary;
}

}  // namespace troupe
