#include "algorithms/choice/algorithm_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "algorithms/common/names.h"
#include "algorithms/common/parameter_object.h"
#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "runtime/config/effects.h"
#include "runtime/config/setting_json.h"

namespace troupe {

namespace {

using Kind = Setting::Kind;

std::string in_quotes(std::string_view text) { return '"' + std::string(text) + '"'; }

[[noreturn]] void refuse(const std::string& path, const std::string& value, const std::string& what) {
  throw ConfigError(path + ": " + value + ' ' + what);
}

ParameterValues advantage_parameters(const AlgorithmConfig& config, const AdvantageEntry& entry) {
  const std::string path = "algorithm.advantage_params";
  if (!entry.run.sequences) {
    if (config.advantage_params != "{}")
      refuse(path, config.advantage_params,
             "cannot be used with algorithm.advantage " + in_quotes(config.advantage) +
                 ", whose parameters are separate settings: algorithm.gamma, algorithm.lambda" +
                 (entry.run.importance_weights ? ", algorithm.rho_bar, ..." : ""));
    return ParameterValues();
  }
  ParameterValues values(entry.parameters);
  if (values.has("gamma")) values.set("algorithm", "gamma", config.gamma);
  if (values.has("lam")) values.set("algorithm", "lam", config.lambda);
  ParameterObject(values, entry.name).read(config.advantage_params, path);
  return values;
}

// The key of clip_config that belongs to the surrogate: its name as written if present, otherwise another name of the
// same surrogate.
std::string mode_of(const Json& modes, const std::string& name, const SurrogateEntry& entry) {
  std::string found, all;
  bool by_name = false;
  for (const auto& [mode, values] : modes.items()) {
    const std::string path = "algorithm.clip_config." + printable(mode);
    Surrogate other = make_surrogate(mode, "algorithm.clip_config");
    ParameterObject(other.parameters, other.entry->name).read(values, path);  // every mode is checked, even if unused
    all += (all.empty() ? "" : ", ") + mode;
    if (other.entry != &entry || by_name) continue;
    by_name = mode == name;
    if (!found.empty() && !by_name)
      throw ConfigError(path + ": names the same surrogate as algorithm.clip_config." + found + "; remove one of them");
    found = mode;
  }
  if (found.empty() && !modes.empty())
    throw ConfigError("algorithm.clip_config: has no entry for algorithm.surrogate " + in_quotes(name) +
                      ", only for: " + all + "; set algorithm.surrogate to one of these");
  return found;
}

// The bound for negative advantages must neither clip ratios of 1 nor apply only to ratios that are already clipped.
void check_dual_clip(double dual_clip, const ParameterValues& parameters) {
  const double clip_high = parameters.number_or("clip_high", parameters.number("clip"));
  const double bound = 1 + clip_high, example = std::max(3.0, std::ceil(2 * bound));
  if (dual_clip == 0 || (dual_clip > 1 && dual_clip > bound)) return;
  AlgorithmConfig defaults;
  Fields fields;
  describe(defaults, fields);
  const std::string use = example > highest_of(fields, "algorithm.dual_clip")
                              ? "; use 0 (off), or a smaller algorithm.clip_high"
                              : "; use 0 (off) or more than " + number_text(bound) + ", like " + number_text(example);
  refuse("algorithm.dual_clip", number_text(dual_clip),
         (dual_clip <= 1
              ? "would clip a ratio of 1, that of an unchanged policy"
              : "is not above 1 + clip_high " + number_text(clip_high) + ", where the ratio is clipped anyway") +
             use);
}

// The surrogate parameter `clip` sets both clip_low and clip_high, so a common setting beside it must agree with it.
void require_one_clip(const ParameterObject& values, const std::string& field, double value) {
  const ParameterObject::Given* clip = values.given("clip");
  if (clip == nullptr || std::get<double>(clip->value) == value) return;
  const std::string in_place = clip->where.substr(0, clip->where.rfind('.') + 1) + field;
  throw ConfigError("algorithm." + field + ": " + number_text(value) + " contradicts " + clip->where + ' ' +
                    number_text(std::get<double>(clip->value)) + ", which sets clip_low and clip_high; remove one " +
                    "of them, or set " + in_place + " instead of algorithm." + field);
}

Surrogate choose_surrogate(const AlgorithmConfig& config) {
  Surrogate result = make_surrogate(config.surrogate, "algorithm.surrogate");
  ParameterObject values(result.parameters, result.entry->name);
  values.read(config.surrogate_params, "algorithm.surrogate_params");
  const Json modes = parse_strict(config.clip_config, "algorithm.clip_config");
  const std::string mode = mode_of(modes, config.surrogate, *result.entry);
  if (!mode.empty()) values.read(modes.at(mode), "algorithm.clip_config." + mode);
  const auto set_clip = [&](const char* key, std::optional<double> clip) {
    if (!clip) return;
    values.set("algorithm", key, *clip);
    require_one_clip(values, key, *clip);
  };
  set_clip("clip_low", config.clip_low);
  set_clip("clip_high", config.clip_high);
  if (config.dual_clip && result.parameters.has("dual_clip")) {
    values.set("algorithm", "dual_clip", *config.dual_clip);
    check_dual_clip(*config.dual_clip, result.parameters);
  } else if (config.dual_clip.value_or(0) != 0) {
    refuse("algorithm.dual_clip", number_text(*config.dual_clip),
           "has no effect with algorithm.surrogate " + in_quotes(config.surrogate) +
               "; set algorithm.surrogate to one with dual clipping, like \"clip\", or remove algorithm.dual_clip "
               "(default null)");
  }
  result(SurrogateInput{}, SurrogateOutput{});  // throws if parameters contradict each other
  return result;
}

std::optional<WhitenParams> choose_whitening(const AlgorithmConfig& config, const EstimatorRun& run) {
  if (config.whitening == "auto") {
    if (!config.normalize_advantages || run.sequences) return std::nullopt;  // these whiten if their source does
    return WhitenParams{};
  }
  if (config.whitening == "none") return std::nullopt;
  const WhitenParams params = find_whiten_variant(config.whitening, "algorithm.whitening");
  if (!config.normalize_advantages)
    throw ConfigError("algorithm.normalize_advantages: false contradicts algorithm.whitening " +
                      in_quotes(config.whitening) + "; remove one of them");
  return params;
}

constexpr std::array<std::string_view, 3> kLevels = {"none", "token", "sequence"};
constexpr std::array<std::string_view, 2> kBounds = {"truncate", "zero"};
// As in verl (github.com/volcengine/verl).
constexpr std::array kCorrectionParameters = {
    Setting{.key = "is",
            .kind = Kind::text,
            .default_value = 2,
            .choices = kLevels,
            .help = "level of the importance weights: per token or per sequence, or none",
            .source = "verl",
            .aliases = kWords<"rollout_is">},
    Setting{.key = "is_threshold",
            .default_value = 2,
            .low = 0,
            .high = 1e30,
            .open_low = true,
            .help = "largest weight",
            .source = "verl",
            .aliases = kWords<"rollout_is_threshold">},
    Setting{
        .key = "is_low", .default_value = 0, .low = 0, .high = 1e30, .help = "lowest weight", .source = "verl: none"},
    Setting{.key = "bound",
            .kind = Kind::text,
            .choices = kBounds,
            .help = "a weight outside [is_low, is_threshold] is clamped, or set to 0 (ICEPOP)",
            .source = "verl"},
    Setting{.key = "batch_normalize",
            .kind = Kind::boolean,
            .help = "divide the weights by their mean over the super-batch",
            .source = "verl",
            .aliases = kWords<"rollout_is_batch_normalize">},
    Setting{
        .key = "opsm_delta",
        .default_value = kUnset,
        .low = 0,
        .high = 1e30,
        .help = "rejects tokens of negative advantage in sequences whose mean of log(behaviour / start) is above this",
        .unset = "off",
        .source = "slime: 1e-4"},
    Setting{.key = "rejection",
            .kind = Kind::text,
            .words = "rules like \"token_k1,seq_mean_k3\"",
            .help = "rules like token_k1,seq_mean_k3: token_, seq_sum_, seq_mean_ or seq_max_, then k1, k2 or k3",
            .source = "verl: none"},
    Setting{.key = "rejection_threshold",
            .kind = Kind::text,
            .words = "thresholds like \"0.5_2.0,0.1\"",
            .help = "one per rule, or one for all: k1 takes a range of ratios LOW_HIGH, k2 and k3 an upper bound"},
};
// Without weights (is = none), the parameters that change them must keep their defaults.
void require_unweighted(const ParameterValues& values, const std::string& path) {
  const ParameterValues defaults(kCorrectionParameters);
  const bool same[] = {values.number("is_threshold") == defaults.number("is_threshold"),
                       values.number("is_low") == defaults.number("is_low"),
                       values.text("bound") == defaults.text("bound"),
                       values.flag("batch_normalize") == defaults.flag("batch_normalize")};
  constexpr std::array<std::string_view, 4> kKeys = {"is_threshold", "is_low", "bound", "batch_normalize"};
  for (size_t i = 0; i < kKeys.size(); ++i)
    if (!same[i])
      throw ConfigError(path + '.' + std::string(kKeys[i]) + ": has no effect with " + path + ".is \"none\"; set " +
                        path + ".is to \"token\" or \"sequence\", or remove this parameter");
}

std::optional<RolloutCorrection> choose_correction(const AlgorithmConfig& config) {
  const std::string path = "algorithm.rollout_correction";
  if (config.rollout_correction == "{}") return std::nullopt;
  ParameterValues values(kCorrectionParameters);
  ParameterObject(values, "rollout_correction").read(config.rollout_correction, path);
  RolloutCorrection result;
  result.level = static_cast<WeightLevel>(std::ranges::find(kLevels, values.text("is")) - kLevels.begin());
  result.bound = values.text("bound") == "zero" ? WeightBound::zero : WeightBound::truncate;
  result.low = values.number("is_low");
  result.high = values.number("is_threshold");
  if (result.low > result.high)
    refuse(path + ".is_low", number_text(result.low), "is above is_threshold " + number_text(result.high));
  result.batch_normalize = values.flag("batch_normalize");
  if (result.level == WeightLevel::none) require_unweighted(values, path);
  result.opsm_delta = values.number_or("opsm_delta", result.opsm_delta);
  const std::string rules(values.text("rejection")), thresholds(values.text("rejection_threshold"));
  if (rules.empty() && !thresholds.empty())
    refuse(path + ".rejection_threshold", in_quotes(thresholds), "has no effect without " + path + ".rejection");
  if (!rules.empty()) result.rules = parse_rejection_rules(rules, thresholds, path + ".rejection");
  return result;
}

// Refuses settings that others of the section switch off.
void check_effects(AlgorithmConfig config) {
  AlgorithmConfig defaults;
  Fields fields, of_defaults;
  describe(config, fields);
  describe(defaults, of_defaults);
  require_effects(fields, of_defaults);
}

// Throws unless the correction can be made with this proximal policy.
void check_proximal(const AlgorithmConfig& config, const AlgorithmChoice& choice) {
  const RolloutCorrection& correction = *choice.correction;
  const bool ratio = choice.surrogate.entry->has_ratio, weighted = correction.level != WeightLevel::none;
  const std::string path = "algorithm.proximal", value = in_quotes(config.proximal);
  const std::string surrogate = "algorithm.surrogate " + in_quotes(config.surrogate);
  if (choice.proximal == Proximal::rollout && ratio && weighted)
    refuse(path, value,
           "makes the importance ratio of " + surrogate +
               " correct for what algorithm.rollout_correction.is corrects too; set algorithm.rollout_correction.is to "
               "\"none\", or use \"computed\"");
  if (choice.proximal != Proximal::interpolated) return;
  const auto only_computed = [&](bool wrong, const std::string& what) {
    if (wrong) refuse(path, value, what + "; use \"computed\"");
  };
  only_computed(!ratio, "has no effect with " + surrogate + ", which has no importance ratio");
  only_computed(!correction.rules.empty(),
                "cannot go with algorithm.rollout_correction.rejection: which tokens divide the loss must be known "
                "before its first forward pass");
  only_computed(std::isfinite(correction.opsm_delta),
                "cannot go with algorithm.rollout_correction.opsm_delta: which tokens divide the loss must be known "
                "before its first forward pass");
  only_computed(correction.batch_normalize,
                "cannot go with algorithm.rollout_correction.batch_normalize: the weights of the whole super-batch are "
                "never known together");
  only_computed(choice.advantage->run.importance_weights || needs_probabilities(choice),
                "saves nothing with algorithm.advantage " + in_quotes(config.advantage) +
                    ", for which the policy at the start of an update is evaluated anyway");
}

}  // namespace

AlgorithmChoice choose_algorithm(const AlgorithmConfig& config) {
  AlgorithmChoice result;
  result.advantage = &find_advantage(config.advantage);
  const EstimatorRun& run = result.advantage->run;
  result.advantage_parameters = advantage_parameters(config, *result.advantage);
  result.whitening = choose_whitening(config, run);
  result.surrogate = choose_surrogate(config);
  constexpr std::array<std::string_view, 2> kRatios = {"joint", "per_dimension"};
  result.per_decision = find_name("algorithm.ratio", config.ratio, kRatios) == 1;
  result.aggregation =
      config.aggregation == "auto" ? result.surrogate.entry->aggregation : find_aggregation(config.aggregation);
  if (config.aggregation_length > 0) result.aggregation_length = config.aggregation_length;
  result.value_loss = {find_value_loss(config.value_loss), static_cast<float>(config.value_clip),
                       static_cast<float>(config.huber_delta)};
  result.kl = find_kl(config.kl);
  result.correction = choose_correction(config);
  result.proximal = static_cast<Proximal>(find_name("algorithm.proximal", config.proximal, kProximalNames));
  if (result.correction) check_proximal(config, result);
  if (run.importance_weights && config.vtrace_adv == "pg_rho") {
    if (result.correction)
      refuse("algorithm.vtrace_adv", in_quotes(config.vtrace_adv),
             "and algorithm.rollout_correction both weight advantages by the importance ratio; remove one of them");
    if (result.surrogate.entry->has_ratio)
      refuse("algorithm.vtrace_adv", in_quotes(config.vtrace_adv),
             "and algorithm.surrogate " + in_quotes(config.surrogate) +
                 " both weight advantages by the importance ratio; remove algorithm.vtrace_adv, or set "
                 "algorithm.surrogate to \"reinforce\" or \"gpg\"");
  }
  result.whole_sequences =
      result.surrogate.entry->needs == SurrogateNeeds::sequence || result.aggregation != Aggregation::token_mean;
  result.sequences = result.whole_sequences || run.sequences || result.correction;
  result.columns = run.columns || result.sequences;
  result.start = run.start || result.correction;
  return result;
}

RolloutExtras rollout_extras(const AlgorithmConfig& config) {
  const EstimatorRun& run = find_advantage(config.advantage).run;
  return {.advantages = run.advantages == ComputedBy::worker,
          .returns = run.returns == ComputedBy::worker,
          .next_observations = run.next_observations,
          .tasks = config.group_by == "task",
          .policy_parameters = find_kl(config.kl).kind == KlKind::full};
}

void check_names(const AlgorithmConfig& config) {
  find_advantage(config.advantage);
  make_surrogate(config.surrogate, "algorithm.surrogate");
  find_kl(config.kl);
}

void use_canonical_spelling(AlgorithmConfig& config) {
  for (const AdvantageEntry& entry : advantage_table())
    if (std::ranges::find(entry.aliases, config.advantage) != entry.aliases.end()) config.advantage = entry.name;
  const auto names = [&](const SurrogateAlias& alias) {  // an alias that sets a parameter is a different surrogate
    return alias.key.empty() && !alias.name.empty() && alias.name == config.surrogate;
  };
  if (config.clip_config == "{}")
    for (const SurrogateEntry& entry : surrogate_table())
      if (std::ranges::any_of(entry.aliases, names)) config.surrogate = entry.name;
  config.kl = canonical_kl(config.kl);
  if (config.entropy_coef_end < 0) config.entropy_coef_end = -1;
}

std::vector<std::string> names_for(std::string_view path) {
  std::vector<std::string> names;
  if (path == "algorithm.surrogate")
    for (const SurrogateEntry& entry : surrogate_table()) names.emplace_back(entry.name);
  if (path == "algorithm.advantage")
    for (const AdvantageEntry& entry : advantage_table()) names.emplace_back(entry.name);
  if (path == "algorithm.kl")
    for (const std::string& name : kl_names())
      if (canonical_kl(name) == name) names.push_back(name);
  return names;
}

bool needs_groups(const AlgorithmChoice& choice) { return choice.advantage->needs & kNeedsGroups; }

bool needs_probabilities(const AlgorithmChoice& choice) { return choice.advantage->needs & kNeedsPolicy; }

void check_algorithm(const AlgorithmConfig& a, int64_t micro_batch, int64_t micro_batch_tokens) {
  const AlgorithmChoice choice = choose_algorithm(a);
  check_effects(a);
  if (choice.advantage->run.importance_weights && a.rho_bar < a.c_bar)
    refuse("algorithm.rho_bar", number_text(a.rho_bar),
           "is below algorithm.c_bar " + number_text(a.c_bar) + ", V-trace needs rho_bar >= c_bar");
  if (choice.surrogate.entry->needs == SurrogateNeeds::batch && std::max(micro_batch, micro_batch_tokens) > 0)
    refuse(micro_batch > 0 ? "trainer.micro_batch" : "trainer.micro_batch_tokens",
           std::to_string(micro_batch > 0 ? micro_batch : micro_batch_tokens),
           "would split minibatches, but algorithm.surrogate " + in_quotes(a.surrogate) +
               " compares all samples of a minibatch; use 0");
}

std::span<const Setting> correction_settings() { return kCorrectionParameters; }

std::vector<ChoiceParameters> algorithm_parameters() {
  std::vector<ChoiceParameters> all;
  const auto add = [&](const char* path, std::string_view choice, std::span<const Setting> settings) {
    ChoiceParameters& added = all.emplace_back(ChoiceParameters{path, std::string(choice), {}, {}});
    for (const Setting& setting : settings) {
      added.parameters.push_back(info_of(setting, std::string(setting.key), default_text(setting)));
      added.parameters.back().owner = "algorithms";
    }
  };
  for (const AdvantageEntry& entry : advantage_table()) {
    if (!entry.run.sequences) continue;
    add("algorithm.advantage_params", entry.name, entry.parameters);
    all.back().aliases.assign(entry.aliases.begin(), entry.aliases.end());
  }
  for (const SurrogateEntry& entry : surrogate_table()) {
    add("algorithm.surrogate_params", entry.name, entry.parameters);
    for (const SurrogateAlias& alias : entry.aliases)
      if (!alias.name.empty()) all.back().aliases.emplace_back(alias.name);
  }
  add("algorithm.rollout_correction", "", kCorrectionParameters);
  return all;
}

}  // namespace troupe
