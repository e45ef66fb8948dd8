#include "algorithms/advantages/advantages.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "algorithms/advantages/group_advantages.h"
#include "algorithms/advantages/optimal_baseline.h"
#include "algorithms/advantages/token_advantages.h"
#include "algorithms/common/names.h"
#include "algorithms/common/tile.h"

namespace troupe {

namespace {

using Kind = Setting::Kind;

// Setting::source names the library or paper of a default: verl (github.com/volcengine/verl), OpenRLHF
// (github.com/OpenRLHF/OpenRLHF) and slime (github.com/THUDM/slime) train language models; Dr.GRPO is Liu et al. 2025
// (arXiv:2503.20783).

constexpr std::array<std::string_view, 2> kOutside = {"zero", "carry"};
constexpr std::array<std::string_view, 2> kSingleton = {"zero", "score"};

constexpr Setting flag(std::string_view key, bool on, std::string_view help, std::string_view source) {
  return {.key = key, .kind = Kind::boolean, .default_value = on ? 1.0 : 0.0, .help = help, .source = source};
}

constexpr Setting fraction(std::string_view key, double value, std::string_view help, std::string_view source,
                           std::span<const std::string_view> aliases = {}) {
  return {.key = key, .default_value = value, .low = 0, .high = 1, .help = help, .source = source, .aliases = aliases};
}

constexpr Setting positive(std::string_view key, double value, bool open, std::string_view help,
                           std::string_view source) {
  return {.key = key, .default_value = value, .low = 0, .open_low = open, .help = help, .source = source};
}

constexpr Setting choice(std::string_view key, std::span<const std::string_view> choices, std::string_view help,
                         std::string_view source) {
  return {.key = key, .kind = Kind::text, .choices = choices, .help = help, .source = source};
}

constexpr Setting kGamma = fraction("gamma", 1, "discount per unmasked token", "verl 1");
constexpr Setting kLambda = fraction("lam", 1, "lambda of GAE", "verl 1", kWords<"lambda">);
constexpr Setting kWhiten = flag("whiten", true, "whiten over all unmasked tokens, as in verl", "verl, always");
constexpr Setting kOutsideMask =
    choice("outside", kOutside, "value at masked tokens: 0, or the value that the recurrence carries past them",
           "verl: carry");
constexpr Setting kReset =
    flag("reset_at_mask", true, "the return restarts at a masked token, so rewards after it do not count before it",
         "verl true; OpenRLHF, slime false");
constexpr Setting kEpsilon = positive("epsilon", 1e-6, false, "added to the standard deviation", "verl 1e-6");
constexpr Setting kVarianceFloor =
    positive("epsilon", 1e-6, false, "lower bound of the variance; also added to the standard deviation", "verl 1e-6");
constexpr Setting kByStd = flag("norm_adv_by_std_in_grpo", true,
                                "divide by the standard deviation of the group; false is Dr.GRPO", "verl true");
constexpr Setting kCountMasked =
    flag("count_masked_rewards", false, "the score includes rewards at masked tokens", "verl true");
constexpr Setting kSingletonScore =
    choice("singleton", kSingleton, "advantage of the only sequence of a group: 0, or its score",
           "verl rloo: score, rloo_vectorized: zero");
constexpr Setting kNorm = positive("f_norm", 1, true, "divides every advantage", "verl 1");
constexpr Setting kBaselineEpsilon = positive("epsilon", 1e-8, false, "added to the sum of weights", "verl 1e-8");
constexpr Setting kKeepTail =
    flag("handle_zero_tail", false, "no baseline where only the longest sequence of a group has tokens", "verl false");
constexpr Setting kCutTail =
    flag("handle_zero_tail", true, "no baseline where only the longest sequence of a group has tokens", "verl true");

constexpr std::array kGaeParameters = {kGamma, kLambda, kWhiten, kOutsideMask};
constexpr std::array kReinforceParameters = {kGamma, kWhiten, kReset};
constexpr std::array kRemaxParameters = {kOutsideMask};
constexpr std::array kGrpoParameters = {kEpsilon, kByStd, kCountMasked};
constexpr std::array kGrpoVectorizedParameters = {kVarianceFloor, kByStd, kCountMasked};
constexpr std::array kScoreParameters = {kCountMasked};
constexpr std::array kBaselineParameters = {kWhiten, kCountMasked};
constexpr std::array kRlooParameters = {kSingletonScore, kCountMasked};
constexpr std::array kGpgParameters = {kNorm, kCountMasked};
constexpr std::array kOptimalParameters = {kBaselineEpsilon, kKeepTail};
constexpr std::array kTirOptimalParameters = {kBaselineEpsilon, kCutTail};

constexpr std::array<std::string_view, 1> kReinforceAliases = {"reinforce++"};
constexpr std::array<std::string_view, 1> kBaselineAliases = {"reinforce++_baseline"};
constexpr std::array<std::string_view, 1> kRlooAliases = {"rloo_vectorized"};

constexpr uint8_t kGroupsAndPolicy = kNeedsGroups | kNeedsPolicy;

constexpr ComputedBy kWorker = ComputedBy::worker, kTrainer = ComputedBy::trainer;
constexpr EstimatorRun kByWorker = {.advantages = kWorker, .returns = kWorker};
constexpr EstimatorRun kVtrace = {.advantages = kTrainer,
                                  .returns = kTrainer,
                                  .columns = true,
                                  .start = true,
                                  .next_observations = true,
                                  .importance_weights = true};
constexpr EstimatorRun kSequences = {.advantages = kTrainer, .returns = kWorker, .columns = true, .sequences = true};
constexpr EstimatorRun kSequencesAndStart = {
    .advantages = kTrainer, .returns = kWorker, .columns = true, .sequences = true, .start = true};

constexpr std::array kEstimatorTable = {
    AdvantageEntry{"gae", {}, gae_advantages, kNeedsValues, kGaeParameters, kByWorker},
    AdvantageEntry{"vtrace", {}, nullptr, kNeedsNothing, {}, kVtrace},
    AdvantageEntry{"grpo", {}, grpo, kNeedsGroups, kGrpoParameters, kSequences},
    AdvantageEntry{"grpo_vectorized", {}, grpo_vectorized, kNeedsGroups, kGrpoVectorizedParameters, kSequences},
    AdvantageEntry{"dr_grpo", {}, dr_grpo, kNeedsGroups, kScoreParameters, kSequences},
    AdvantageEntry{"grpo_passk", {}, grpo_passk, kNeedsGroups, kGrpoParameters, kSequences},
    AdvantageEntry{"reinforce_plus_plus", kReinforceAliases, reinforce_plus_plus, kNeedsNothing, kReinforceParameters,
                   kSequences},
    AdvantageEntry{"reinforce_plus_plus_baseline", kBaselineAliases, reinforce_plus_plus_baseline, kNeedsGroups,
                   kBaselineParameters, kSequences},
    AdvantageEntry{"rloo", kRlooAliases, rloo, kNeedsGroups, kRlooParameters, kSequences},
    AdvantageEntry{"remax", {}, remax, kNeedsBaselines, kRemaxParameters, kSequences},
    AdvantageEntry{"opo", {}, opo, kNeedsGroups, kScoreParameters, kSequences},
    AdvantageEntry{"gpg", {}, gpg, kNeedsGroups, kGpgParameters, kSequences},
    AdvantageEntry{
        "optimal_token_baseline", {}, optimal_token_baseline, kGroupsAndPolicy, kOptimalParameters, kSequencesAndStart},
    AdvantageEntry{"tir_optimal_token_baseline",
                   {},
                   tir_optimal_token_baseline,
                   kGroupsAndPolicy,
                   kTirOptimalParameters,
                   kSequencesAndStart},
};

// Throws ConfigError when an input that `estimator` needs is missing, InvariantError when its size is wrong.
template <class T>
void check_need(std::string_view estimator, bool needed, std::string_view what, std::span<const T> given,
                std::size_t wanted) {
  if (!needed) return;
  if (given.empty() && wanted > 0)
    throw ConfigError(std::string(what) + ": missing, " + std::string(estimator) + " needs it");
  TROUPE_CHECK(given.size() == wanted, what, given.size(), "want", wanted);
}

}  // namespace

std::span<const AdvantageEntry> advantage_table() { return kEstimatorTable; }

const AdvantageEntry& find_advantage(std::string_view name, std::string_view path) {
  std::vector<std::string_view> names;
  for (const AdvantageEntry& entry : kEstimatorTable) {
    if (entry.name == name || std::ranges::find(entry.aliases, name) != entry.aliases.end()) return entry;
    names.push_back(entry.name);
    names.insert(names.end(), entry.aliases.begin(), entry.aliases.end());
  }
  find_name(path, name, names);  // throws
  throw InvariantError("known name not found: " + std::string(name));
}

void estimate_advantages(const AdvantageEntry& entry, const AdvantageInput& in, const ParameterValues& parameters,
                         const AdvantageOutput& out) {
  if (entry.function == nullptr)
    throw ConfigError(std::string(entry.name) + ": not available as a function of token sequences");
  const std::size_t tokens = in.rewards.size();
  TROUPE_CHECK(in.sequences.tokens() == static_cast<int64_t>(tokens), "rewards", tokens, "sequences",
               in.sequences.tokens());
  const auto sequences = static_cast<std::size_t>(in.sequences.count());
  TROUPE_CHECK(fits_or_empty(in.mask, tokens), "mask", in.mask.size(), "rewards", tokens);
  TROUPE_CHECK(fits_or_empty(in.whitened, tokens), "whitened", in.whitened.size(), "rewards", tokens);
  TROUPE_CHECK(out.advantages.size() == tokens && out.returns.size() == tokens, "advantages", out.advantages.size(),
               "returns", out.returns.size(), "rewards", tokens);
  check_need(entry.name, entry.needs & kNeedsGroups, "groups", in.groups, sequences);
  check_need(entry.name, entry.needs & kNeedsValues, "values", in.values, tokens);
  check_need(entry.name, entry.needs & kNeedsBaselines, "baselines", in.baselines, sequences);
  check_need(entry.name, entry.needs & kNeedsPolicy, "old_log_probs", in.old_log_probs, tokens);
  check_need(entry.name, entry.needs & kNeedsPolicy, "sum_pi_squared", in.sum_pi_squared, tokens);
  TROUPE_CHECK(in.rollout_is_weights.empty() || in.rollout_is_weights.size() == tokens, "rollout_is_weights",
               in.rollout_is_weights.size(), "rewards", tokens);
  entry.function(in, parameters, out);
}

}  // namespace troupe
