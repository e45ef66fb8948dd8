#include "algorithms/losses/surrogate_table.h"

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "algorithms/common/names.h"

namespace troupe {

namespace {

using Kind = Setting::Kind;

// Papers are named with their equations in surrogate.cpp, sequence_surrogate.cpp and covariance_surrogate.cpp. Other
// sources: verl (github.com/volcengine/verl), TRL (github.com/huggingface/trl), OpenRLHF
// (github.com/OpenRLHF/OpenRLHF), slime (github.com/THUDM/slime) and AReaL (github.com/inclusionAI/AReaL) train
// language models; AcceRL (arXiv:2603.18464) trains robot policies.

// Every surrogate has the bounds of the ratio; some use them only for metrics.
using Names = std::span<const std::string_view>;
constexpr Names kClipAliases = kWords<"clip_ratio", "clip_eps", "eps_clip", "epsilon">;
constexpr Names kLowAliases = kWords<"clip_ratio_low", "epsilon_low", "eps_clip_low">;
constexpr Names kHighAliases = kWords<"clip_ratio_high", "epsilon_high", "eps_clip_high">;

constexpr Setting clip(std::string_view help, double value = 0.2,
                       std::string_view source = "Schulman et al. 2017; verl") {
  return {.key = "clip", .default_value = value, .low = 0, .help = help, .source = source, .aliases = kClipAliases};
}
constexpr Setting clip_low(std::string_view help, std::string_view unset = "clip", Names aliases = kLowAliases) {
  return {.key = "clip_low",
          .default_value = kUnset,
          .low = 0,
          .help = help,
          .unset = unset,
          .source = "verl",
          .aliases = aliases};
}
constexpr Setting clip_high(std::string_view help, std::string_view unset = "clip", Names aliases = kHighAliases) {
  return {.key = "clip_high",
          .default_value = kUnset,
          .low = 0,
          .help = help,
          .unset = unset,
          .source = "verl",
          .aliases = aliases};
}

constexpr Setting kClip = clip("the ratio is clipped to [1 - clip, 1 + clip]");
constexpr Setting kLow = clip_low("replaces clip in the lower bound");
constexpr Setting kHigh = clip_high("replaces clip in the upper bound");
constexpr Setting kMeasuredClip = clip("bounds for the metrics only; the loss is not clipped");
constexpr Setting kMeasuredLow = clip_low("replaces clip in the lower bound, for the metrics");
constexpr Setting kMeasuredHigh = clip_high("replaces clip in the upper bound, for the metrics");
constexpr Setting kRatioMin = {.key = "ratio_min",
                               .default_value = kUnset,
                               .low = 0,
                               .open_low = true,
                               .help = "smaller ratios are clamped to this and have no gradient",
                               .unset = "exp(-20)",
                               .source = "AcceRL"};
constexpr Setting kRatioMax = {.key = "ratio_max",
                               .default_value = kUnset,
                               .low = 0,
                               .open_low = true,
                               .help = "larger ratios are clamped to this and have no gradient",
                               .unset = "exp(20)",
                               .source = "AcceRL"};

constexpr Setting dual_clip(double value, std::string_view source) {
  return {.key = "dual_clip",
          .default_value = value,
          .low = 0,
          .help = "upper bound c > 1 of the ratio where the advantage is negative; 0 = off",
          .source = source,
          .aliases = kWords<"clip_ratio_c", "delta">};
}

constexpr std::array kClipParameters = {kClip, kLow, kHigh, dual_clip(0, "slime, OpenRLHF; verl always has 3")};
constexpr std::array kDualClipParameters = {kClip, kLow, kHigh, dual_clip(3, "Ye et al. 2020; verl")};
constexpr std::array kPlainParameters = {kMeasuredClip, kMeasuredLow, kMeasuredHigh};

constexpr std::array kSoftClipParameters = {kMeasuredClip, kMeasuredLow, kMeasuredHigh,
                                            Setting{.key = "alpha",
                                                    .default_value = 1,
                                                    .low = 0,
                                                    .help = "exponent of min(r, 1/r); 0 = no clipping",
                                                    .source = "AcceRL",
                                                    .aliases = kWords<"soft_clip_alpha">},
                                            Setting{.key = "dynamic_alpha",
                                                    .kind = Kind::boolean,
                                                    .help = "the exponent is alpha (1 + sigmoid(-A))",
                                                    .source = "AcceRL",
                                                    .aliases = kWords<"soft_clip_dynamic_alpha">}};

constexpr std::array kSapoParameters = {
    kMeasuredClip,
    kMeasuredLow,
    kMeasuredHigh,
    Setting{.key = "tau_pos",
            .default_value = 1,
            .low = 0,
            .open_low = true,
            .help = "temperature of the gate where the advantage is above 0",
            .source = "SAPO paper; verl, TRL, AReaL",
            .aliases = kWords<"sapo_tau_pos", "sapo_temperature_pos">},
    Setting{.key = "tau_neg",
            .default_value = 1.05,
            .low = 0,
            .open_low = true,
            .help = "temperature of the gate where the advantage is 0 or negative",
            .source = "SAPO paper; verl, TRL, AReaL (AcceRL: 2)",
            .aliases = kWords<"sapo_tau_neg", "sapo_temperature_neg">},
    Setting{.key = "saturation",
            .default_value = 0.05,
            .low = 0,
            .high = 1,
            .help = "gradient weight below which a token counts as saturated, in the metrics",
            .source = "AcceRL",
            .aliases = kWords<"sapo_w_thresh">},
    kRatioMin,
    kRatioMax};

constexpr std::array kCeGppoParameters = {
    kClip,
    kLow,
    kHigh,
    dual_clip(0, "AcceRL; the authors' code has 3"),
    Setting{.key = "beta1",
            .default_value = 0.75,
            .low = 0,
            .help = "fraction of the gradient kept where r < 1 - clip_low and A < 0",
            .source = "CE-GPPO paper, AcceRL (the authors' code: 0.25)",
            .aliases = kWords<"ce_gppo_beta1">},
    Setting{.key = "beta2",
            .default_value = 1,
            .low = 0,
            .help = "fraction of the gradient kept where r > 1 + clip_high and A > 0",
            .source = "CE-GPPO paper, AcceRL",
            .aliases = kWords<"ce_gppo_beta2">}};

constexpr std::array<std::string_view, 2> kCispoForms = {"logp", "ratio"};
constexpr std::array kCispoParameters = {
    clip("the weight is at most 1 + clip; with verl_compat also at least 1 - clip"),
    clip_low("the weight is at least 1 - clip_low", "no bound, or clip with verl_compat",
             kWords<"clip_ratio_low", "epsilon_low", "eps_is_low">),
    clip_high("replaces clip in the upper bound", "clip", kWords<"clip_ratio_high", "epsilon_high", "eps_is_high">),
    Setting{.key = "form",
            .kind = Kind::text,
            .choices = kCispoForms,
            .help = "the loss is -weight A log_prob, or -weight A; the gradient is the same",
            .source = "MiniMax-M1, verl: logp; AcceRL: ratio"},
    Setting{.key = "verl_compat",
            .kind = Kind::boolean,
            .help = "clip also sets the lower bound of the weight",
            .source = "verl"},
    kRatioMin,
    kRatioMax};

constexpr std::array kGspoParameters = {
    clip("bounds of the sequence's ratio: 1 - clip and 1 + clip", 0.2, "verl, TRL; the paper: 3e-4 below, 4e-4 above"),
    kLow, kHigh};
constexpr std::array kGeoMeanParameters = {clip("bounds of the log-ratio: -clip and clip", 0.2, "verl; the paper: 0.4"),
                                           clip_low("replaces clip in the lower bound"),
                                           clip_high("replaces clip in the upper bound")};

constexpr Setting covariance_share(std::string_view help, Names aliases) {
  return {.key = "fraction",
          .default_value = 2e-4,
          .low = 0,
          .high = 1,
          .help = help,
          .source = "Cui et al. 2025; verl",
          .aliases = aliases};
}
constexpr std::array kClipCovParameters = {
    kClip,
    kLow,
    kHigh,
    covariance_share("fraction of the tokens that lose their gradient; at least one token", kWords<"clip_cov_ratio">),
    Setting{.key = "cov_low",
            .default_value = 1,
            .help = "only tokens with a covariance above this",
            .source = "verl",
            .aliases = kWords<"clip_cov_lb">},
    Setting{.key = "cov_high",
            .default_value = 5,
            .help = "only tokens with a covariance below this",
            .source = "verl",
            .aliases = kWords<"clip_cov_ub">}};
constexpr std::array kKlCovParameters = {
    kMeasuredClip, kMeasuredLow, kMeasuredHigh,
    covariance_share("fraction of the tokens that are penalized, those with the largest covariance; at least one token",
                     kWords<"kl_cov_ratio">),
    Setting{.key = "kl_coef",
            .default_value = 0.1,
            .low = 0,
            .help = "weight of |log r| on these tokens",
            .source = "verl's configuration",
            .aliases = kWords<"ppo_kl_coef">}};

constexpr std::array kGipoParameters = {
    kMeasuredClip, kMeasuredLow, kMeasuredHigh,
    Setting{.key = "sigma",
            .default_value = 1,
            .low = 0,
            .open_low = true,
            .help = "standard deviation of the Gaussian in log r that weights each token",
            .source = "AcceRL (the paper's script: 0.5)",
            .aliases = kWords<"log_gauss_sigma", "gipo_sigma">}};

constexpr auto kToken = SurrogateNeeds::token, kSequence = SurrogateNeeds::sequence, kBatch = SurrogateNeeds::batch;
constexpr auto kTokenMean = Aggregation::token_mean, kSeqMean = Aggregation::seq_mean_token_mean;
using Alias = SurrogateAlias;
using Aliases = std::array<Alias, 5>;

constexpr std::array kTable = {
    SurrogateEntry{"clip", Aliases{Alias{"ppo"}, {"ppo_clip"}, {"vanilla"}, {"clip_higher", "clip_high", 0.28}},
                   kClipParameters, kToken, kTokenMean, clip_surrogate},
    SurrogateEntry{"dual_clip", Aliases{Alias{"dual-clip"}}, kDualClipParameters, kToken, kTokenMean, clip_surrogate},
    SurrogateEntry{"soft_clip", Aliases{Alias{"soft_clip_alpha-1"}, {"soft_clip_alpha-2", "alpha", 2}},
                   kSoftClipParameters, kToken, kTokenMean, soft_clip_surrogate},
    SurrogateEntry{"sapo", Aliases{Alias{"sapo_soft_clip"}, {"sapo_gate"}}, kSapoParameters, kToken, kTokenMean,
                   sapo_surrogate},
    SurrogateEntry{"ce_gppo", Aliases{Alias{"ce-gppo"}, {"ce-gppo_clip"}, {"ce_gppo_clip"}}, kCeGppoParameters, kToken,
                   kTokenMean, ce_gppo_surrogate},
    SurrogateEntry{"cispo", Aliases{Alias{"cispo_clip"}, {"is_clip"}, {"is_weight_clip"}}, kCispoParameters, kToken,
                   kTokenMean, cispo_surrogate},
    SurrogateEntry{"gspo", {}, kGspoParameters, kSequence, kSeqMean, gspo_surrogate},
    SurrogateEntry{"gpg", {}, kPlainParameters, kToken, kTokenMean, log_prob_surrogate, false},
    SurrogateEntry{"clip_cov", Aliases{Alias{"clip-cov"}}, kClipCovParameters, kBatch, kTokenMean, clip_cov_surrogate},
    SurrogateEntry{"kl_cov", Aliases{Alias{"kl-cov"}}, kKlCovParameters, kBatch, kTokenMean, kl_cov_surrogate},
    SurrogateEntry{"geo_mean", Aliases{Alias{"gmpo"}}, kGeoMeanParameters, kSequence, kSeqMean, geo_mean_surrogate},
    SurrogateEntry{"reinforce", {}, kPlainParameters, kToken, kTokenMean, log_prob_surrogate, false},
    SurrogateEntry{"gipo", Aliases{Alias{"log_gauss_clip"}}, kGipoParameters, kToken, kTokenMean, gipo_surrogate},
    SurrogateEntry{"none", Aliases{Alias{"no_clip"}}, kPlainParameters, kToken, kTokenMean, unclipped_surrogate},
};

}  // namespace

std::span<const SurrogateEntry> surrogate_table() { return kTable; }

Surrogate make_surrogate(std::string_view name, std::string_view path) {
  std::vector<std::string_view> names;
  for (const SurrogateEntry& entry : kTable) {
    if (entry.name == name) return {&entry, ParameterValues(entry.parameters)};
    names.push_back(entry.name);
    for (const SurrogateAlias& alias : entry.aliases) {
      if (alias.name.empty()) continue;
      names.push_back(alias.name);
      if (alias.name != name) continue;
      Surrogate found{&entry, ParameterValues(entry.parameters)};
      if (!alias.key.empty()) found.parameters.set(path, alias.key, alias.value);
      return found;
    }
  }
  find_name(path, name, names);  // throws
  throw InvariantError("known name not found: " + std::string(name));
}

void refuse_ratio_bounds(const ParameterValues& parameters) {
  const auto shown = [&](const char* key) {
    const double value = parameters.number(key);
    return std::isnan(value) ? "unset" : std::to_string(value);
  };
  throw ConfigError("ratio_min: " + shown("ratio_min") + " with ratio_max " + shown("ratio_max") +
                    ", expected less than ratio_max, and both within exp(-20) to exp(20)");
}

}  // namespace troupe
