#include "algorithms/losses/surrogate_table.h"

#include <array>
#include <vector>

#include "algorithms/common/names.h"

namespace troupe {

namespace {

using Kind = Parameter::Kind;

// What every surrogate has: the bounds of the ratio, which some only measure with.
constexpr std::string_view kClipAlias = "clip_ratio,clip_eps,eps_clip,epsilon";
constexpr std::string_view kLowAlias = "clip_ratio_low,epsilon_low,eps_clip_low";
constexpr std::string_view kHighAlias = "clip_ratio_high,epsilon_high,eps_clip_high";

constexpr Parameter clip(std::string_view doc, double value = 0.2,
                         std::string_view source = "Schulman et al. 2017; verl") {
  return {.key = "clip", .default_value = value, .low = 0, .doc = doc, .source = source, .alias = kClipAlias};
}
constexpr Parameter clip_low(std::string_view doc, std::string_view alias = kLowAlias) {
  return {.key = "clip_low", .default_value = kUnset, .low = 0, .doc = doc, .source = "verl", .alias = alias};
}
constexpr Parameter clip_high(std::string_view doc, std::string_view alias = kHighAlias) {
  return {.key = "clip_high", .default_value = kUnset, .low = 0, .doc = doc, .source = "verl", .alias = alias};
}

constexpr Parameter kClip = clip("the ratio counts up to 1 - clip and 1 + clip");
constexpr Parameter kLow = clip_low("in place of clip below 1; unset: clip");
constexpr Parameter kHigh = clip_high("in place of clip above 1; unset: clip");
constexpr Parameter kMeasuredClip = clip("bounds that the metrics are taken with; the loss has none");
constexpr Parameter kMeasuredLow = clip_low("in place of clip below 1, for the metrics; unset: clip");
constexpr Parameter kMeasuredHigh = clip_high("in place of clip above 1, for the metrics; unset: clip");
constexpr Parameter kRatioMin = {.key = "ratio_min",
                                 .default_value = kUnset,
                                 .low = 0,
                                 .open_low = true,
                                 .doc = "a smaller ratio counts as this, without gradient; unset: exp(-20)",
                                 .source = "AcceRL"};
constexpr Parameter kRatioMax = {.key = "ratio_max",
                                 .default_value = kUnset,
                                 .low = 0,
                                 .open_low = true,
                                 .doc = "a larger ratio counts as this, without gradient; unset: exp(20)",
                                 .source = "AcceRL"};

constexpr Parameter dual_clip(double value, std::string_view source) {
  return {.key = "dual_clip",
          .default_value = value,
          .low = 0,
          .doc = "bound c > 1 of the ratio where the advantage is negative; 0 = off",
          .source = source,
          .alias = "clip_ratio_c,delta"};
}

constexpr std::array kClipParameters = {kClip, kLow, kHigh, dual_clip(0, "slime, OpenRLHF; verl always has 3")};
constexpr std::array kDualClipParameters = {kClip, kLow, kHigh, dual_clip(3, "Ye et al. 2020; verl")};
constexpr std::array kPlainParameters = {kMeasuredClip, kMeasuredLow, kMeasuredHigh};

constexpr std::array kSoftClipParameters = {kMeasuredClip, kMeasuredLow, kMeasuredHigh,
                                            Parameter{.key = "alpha",
                                                      .default_value = 1,
                                                      .low = 0,
                                                      .doc = "exponent of min(r, 1/r); 0 = no clipping",
                                                      .source = "AcceRL",
                                                      .alias = "soft_clip_alpha"},
                                            Parameter{.key = "dynamic_alpha",
                                                      .kind = Kind::flag,
                                                      .doc = "the exponent is alpha (1 + sigmoid(-A))",
                                                      .source = "AcceRL",
                                                      .alias = "soft_clip_dynamic_alpha"}};

constexpr std::array kSapoParameters = {
    kMeasuredClip,
    kMeasuredLow,
    kMeasuredHigh,
    Parameter{.key = "tau_pos",
              .default_value = 1,
              .low = 0,
              .open_low = true,
              .doc = "temperature of the gate where the advantage is above 0",
              .source = "SAPO paper; verl, TRL, AReaL",
              .alias = "sapo_tau_pos,sapo_temperature_pos"},
    Parameter{.key = "tau_neg",
              .default_value = 1.05,
              .low = 0,
              .open_low = true,
              .doc = "temperature of the gate elsewhere",
              .source = "SAPO paper; verl, TRL, AReaL (AcceRL: 2)",
              .alias = "sapo_tau_neg,sapo_temperature_neg"},
    Parameter{.key = "saturation",
              .default_value = 0.05,
              .low = 0,
              .high = 1,
              .doc = "gradient weight below which a token counts as saturated, in the metrics",
              .source = "AcceRL",
              .alias = "sapo_w_thresh"},
    kRatioMin,
    kRatioMax};

constexpr std::array kCeGppoParameters = {
    kClip,
    kLow,
    kHigh,
    dual_clip(0, "AcceRL; the authors' code has 3"),
    Parameter{.key = "beta1",
              .default_value = 0.75,
              .low = 0,
              .doc = "share of the gradient kept where r < 1 - clip_low and A < 0",
              .source = "CE-GPPO paper, AcceRL (the authors' code: 0.25)",
              .alias = "ce_gppo_beta1"},
    Parameter{.key = "beta2",
              .default_value = 1,
              .low = 0,
              .doc = "share of the gradient kept where r > 1 + clip_high and A > 0",
              .source = "CE-GPPO paper, AcceRL",
              .alias = "ce_gppo_beta2"}};

constexpr std::array<std::string_view, 2> kCispoForms = {"logp", "ratio"};
constexpr std::array kCispoParameters = {
    clip("the weight is at most 1 + clip; with verl_compat also at least 1 - clip"),
    clip_low("the weight is at least 1 - clip_low; unset: no bound, or clip with verl_compat",
             "clip_ratio_low,epsilon_low,eps_is_low"),
    clip_high("in place of clip above 1; unset: clip", "clip_ratio_high,epsilon_high,eps_is_high"),
    Parameter{.key = "form",
              .kind = Kind::choice,
              .choices = kCispoForms,
              .doc = "the loss is -weight A log_prob, or -weight A; the gradient is the same",
              .source = "MiniMax-M1, verl: logp; AcceRL: ratio"},
    Parameter{.key = "verl_compat", .kind = Kind::flag, .doc = "clip bounds the weight below too", .source = "verl"},
    kRatioMin,
    kRatioMax};

constexpr std::array kGspoParameters = {
    clip("bounds of the sequence's ratio: 1 - clip and 1 + clip", 0.2, "verl, TRL; the paper: 3e-4 below, 4e-4 above"),
    kLow, kHigh};
constexpr std::array kGeoMeanParameters = {clip("bounds of the log-ratio: -clip and clip", 0.2, "verl; the paper: 0.4"),
                                           clip_low("in place of clip below 0; unset: clip"),
                                           clip_high("in place of clip above 0; unset: clip")};

constexpr Parameter covariance_share(std::string_view doc, std::string_view alias) {
  return {.key = "fraction",
          .default_value = 2e-4,
          .low = 0,
          .high = 1,
          .doc = doc,
          .source = "Cui et al. 2025; verl",
          .alias = alias};
}
constexpr std::array kClipCovParameters = {
    kClip,
    kLow,
    kHigh,
    covariance_share("share of the tokens that lose their gradient, at least one token", "clip_cov_ratio"),
    Parameter{.key = "cov_low",
              .default_value = 1,
              .doc = "only tokens with a covariance above this",
              .source = "verl",
              .alias = "clip_cov_lb"},
    Parameter{.key = "cov_high",
              .default_value = 5,
              .doc = "only tokens with a covariance below this",
              .source = "verl",
              .alias = "clip_cov_ub"}};
constexpr std::array kKlCovParameters = {
    kMeasuredClip, kMeasuredLow, kMeasuredHigh,
    covariance_share("share of the tokens, those of the largest covariance, that are penalised; at least one token",
                     "kl_cov_ratio"),
    Parameter{.key = "kl_coef",
              .default_value = 0.1,
              .low = 0,
              .doc = "weight of |log r| on these tokens",
              .source = "verl's configuration",
              .alias = "ppo_kl_coef"}};

constexpr std::array kGipoParameters = {kMeasuredClip, kMeasuredLow, kMeasuredHigh,
                                        Parameter{.key = "sigma",
                                                  .default_value = 1,
                                                  .low = 0,
                                                  .open_low = true,
                                                  .doc = "width of the Gaussian of log r that weighs a token",
                                                  .source = "AcceRL (the paper's script: 0.5)",
                                                  .alias = "log_gauss_sigma,gipo_sigma"}};

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
    SurrogateEntry{"gpg", {}, kPlainParameters, kToken, kTokenMean, log_prob_surrogate},
    SurrogateEntry{"clip_cov", Aliases{Alias{"clip-cov"}}, kClipCovParameters, kBatch, kTokenMean, clip_cov_surrogate},
    SurrogateEntry{"kl_cov", Aliases{Alias{"kl-cov"}}, kKlCovParameters, kBatch, kTokenMean, kl_cov_surrogate},
    SurrogateEntry{"geo_mean", Aliases{Alias{"gmpo"}}, kGeoMeanParameters, kSequence, kSeqMean, geo_mean_surrogate},
    SurrogateEntry{"reinforce", {}, kPlainParameters, kToken, kTokenMean, log_prob_surrogate},
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
  throw InvariantError("a name that is known and not found: " + std::string(name));
}

}  // namespace troupe
