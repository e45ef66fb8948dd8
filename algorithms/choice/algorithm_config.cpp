#include "algorithms/choice/algorithm_config.h"

#include "algorithms/advantages/advantages.h"

#include <algorithm>

namespace troupe {

namespace {

// Whether the estimator is known and has the property; unknown names are refused by choose_algorithm().
template <class Property>
bool is_estimator(std::string_view name, Property property) {
  return std::ranges::any_of(advantage_table(), [&](const AdvantageEntry& entry) {
    return (entry.name == name || std::ranges::count(entry.aliases, name) > 0) && property(entry);
  });
}

bool takes_sequences(std::string_view name) {
  return is_estimator(name, [](const AdvantageEntry& entry) { return entry.run.sequences; });
}

bool compares_sequences(std::string_view name) {
  return is_estimator(name, [](const AdvantageEntry& entry) { return (entry.needs & kNeedsGroups) != 0; });
}

bool has_parameter(std::string_view estimator, std::string_view key) {
  return is_estimator(estimator, [&](const AdvantageEntry& entry) {
    return !entry.run.sequences || std::ranges::count(entry.parameters, key, &Setting::key) > 0;
  });
}

bool reads_gamma(std::string_view name) { return has_parameter(name, "gamma"); }
bool reads_lambda(std::string_view name) { return has_parameter(name, "lam"); }

// In runs on environments the value targets of every estimator are returns of GAE.
constexpr Need kWithDiscount = {
    .condition = is_such("algorithm.advantage", reads_gamma, "an estimator with a discount, like \"gae\""),
    .when = kTokenRuns};
constexpr Need kWithLambda = {
    .condition = is_such("algorithm.advantage", reads_lambda, "an estimator with a lambda, like \"gae\""),
    .when = kTokenRuns};
// false is also true of estimators that normalize by themselves.
constexpr Need kNormalized = {.condition = is("algorithm.advantage", kWords<"gae", "vtrace">), .refused = false};
constexpr Need kVtrace = {.condition = is("algorithm.advantage", kWords<"vtrace">)};
// Language models have values that they learn only with a critic.
constexpr Need kWithCritic = {.condition = is("model.critic", kWords<"shared", "separate">), .when = kTokenRuns};
// The entropy of a Gaussian depends only on its standard deviation.
constexpr Need kLearnedEntropy = {.condition = known_later("a learned standard deviation, if actions are continuous")};

// algorithm_config.h and moments.h introduce the libraries that settings are named after.

// The format of a name of a table in algorithms/; whether the name exists is checked there.
constexpr std::string_view kTableName = "^[A-Za-z0-9_+-]{1,60}$";

void describe_estimator(AlgorithmConfig& c, Fields& fields) {
  const Section s(fields, "algorithm", "algorithms");
  s.add(c.advantage, "advantage", matching(kTableName, "a name like gae"),
        "the advantage estimator: gae, vtrace, or one for whole sequences", {.elsewhere = kWords<"adv_estimator">});
  s.add_object(c.advantage_params, "advantage_params",
               "parameters of an estimator for whole sequences; gae and vtrace have separate settings");
  s.add(c.gamma, "gamma", between(0, 1), "discount per decision",
        {.elsewhere = kWords<"discount">, .needs = {kWithDiscount}});
  s.add(c.lambda, "lambda", between(0, 1), "weight of longer returns: 0 = one-step returns, 1 = full returns",
        {.elsewhere = kWords<"gae_lambda", "lam">, .needs = {kWithLambda}});
  s.add(c.bootstrap_on_truncation, "bootstrap_on_truncation", anything(),
        "true: when a time limit truncates an episode, the value of its final state is used in place of later rewards; "
        "false: they count as 0",
        {.needs = {kOnlyControlRuns}});
  s.add(c.bootstrap_cut_answers, "bootstrap_cut_answers", anything(),
        "true: the value after the last token of an answer that was cut at its largest length "
        "takes the place of what would follow; false: the answer ends there",
        {.needs = {kOnlyTokenRuns,
                   {.condition = is("model.critic", kWords<"shared", "separate">)},
                   {.condition = is_false("algorithm.mask_cut_answers")}}});
  s.add(c.rho_bar, "rho_bar", above(0, 1e6), "V-trace: upper bound of the importance weight in the value target",
        {.needs = {kVtrace}});
  s.add(c.c_bar, "c_bar", above(0, 1e6), "V-trace: upper bound of the trace coefficients", {.needs = {kVtrace}});
  s.add(c.pg_rho_bar, "pg_rho_bar", above(0, 1e6),
        "V-trace: upper bound of the importance weight in the policy gradient",
        {.needs = {kVtrace, {.condition = is("algorithm.vtrace_adv", kWords<"pg_rho">)}}});
  s.add(c.vtrace_adv, "vtrace_adv", one_of(kWords<"unweighted", "pg_rho">),
        "V-trace: pg_rho multiplies advantages by the clipped importance weight; use it with surrogates without an "
        "importance ratio (gpg, reinforce)",
        {.needs = {kVtrace}});
  s.add(c.incomplete, "incomplete", one_of(kWords<"bootstrap", "drop">),
        "for sequences that do not end in a terminal state: bootstrap adds gamma times the value of the "
        "next state to their last reward, drop leaves them out",
        {.needs = {kOnlyControlRuns,
                   {.condition = is_such("algorithm.advantage", takes_sequences,
                                         "an estimator for whole sequences, like \"grpo\"")}}});
  s.add(
      c.group_by, "group_by", one_of(kWords<"batch", "task">),
      "groups within which estimators such as grpo compare sequences: all sequences of a super-batch, or those of one "
      "task; token runs always compare the answers to one prompt",
      {.needs = {kOnlyControlRuns,
                 {.condition = is_such("algorithm.advantage", compares_sequences,
                                       "an estimator that compares sequences, like \"grpo\"")}}});
  s.add(c.normalize_advantages, "normalize_advantages", anything(),
        "scale advantages to mean 0 and standard deviation 1 over the whole super-batch, unless the estimator does "
        "that itself",
        {.elsewhere = kWords<"norm_adv">, .needs = {kNormalized}});
  s.add(c.whitening, "whitening",
        one_of(kWords<"auto", "none", "accerl", "verl", "slime", "openrlhf", "lm_human_preferences">),
        "how advantages are normalized: as in the library of that name, or not at all (none); auto: accerl for gae and "
        "vtrace, else none");
}

// Of policy_filtration_power: so that the weights of any scores can be added.
constexpr double kLargestPower = 7;
constexpr std::string_view kOwnClip = "the surrogate's own, 0.2 for clip";

void describe_surrogate(AlgorithmConfig& c, Fields& fields) {
  const Section s(fields, "algorithm", "algorithms");
  s.add(c.surrogate, "surrogate", matching(kTableName, "a name like clip"), "the policy loss",
        {.elsewhere = kWords<"clip_mode", "policy_loss">});
  s.add_object(c.surrogate_params, "surrogate_params",
               "the parameters of the surrogate; those of clip have the clip range, `clip`, which other libraries call "
               "`clip_coef`, `clip_range` or `clip_eps`");
  s.add_object(c.clip_config, "clip_config",
               "the parameters in AcceRL's format: {surrogate: {parameter: value}}; only those of the chosen surrogate "
               "are used");
  s.add(c.clip_low, "clip_low", above(0, 1),
        "importance ratios below 1 - clip_low are clipped; surrogates that do not clip use it for metrics only",
        {.unset = kOwnClip});
  s.add(c.clip_high, "clip_high", above(0, 1e6),
        "importance ratios above 1 + clip_high are clipped; surrogates that do not clip use it for metrics only",
        {.unset = kOwnClip});
  s.add(c.dual_clip, "dual_clip", between(0, 1e6),
        "upper bound (above 1) of the ratio where the advantage is negative; 0 = off",
        {.unset = "the surrogate's own, off for clip"});
  s.add(c.ratio, "ratio", one_of(kWords<"joint", "per_dimension">),
        "one importance ratio per action, or one per component of an action",
        {.needs = {kOnlyControlRuns, {.condition = known_later("actions of several components or steps")}}});
  s.add(c.aggregation, "aggregation",
        one_of(kWords<"auto", "token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm">),
        "how the policy losses of tokens are reduced to one number; auto: as in the surrogate's source",
        {.elsewhere = kWords<"loss_agg_mode">});
  s.add(c.aggregation_length, "aggregation_length", between(0, 1e9),
        "divisor of seq-mean-token-sum-norm, in tokens; 0 = the tokens of rollout.length steps (token runs: the most "
        "tokens of an answer)",
        {.needs = {{.condition = is("algorithm.aggregation", kWords<"seq-mean-token-sum-norm">)}}});
  s.add(c.reward_clip, "reward_clip", between(0, 1e9),
        "scores of answers are clipped to this magnitude before anything is added to them; 0 = off",
        {.elsewhere = kWords<"reward_clip_range", "cliprange_reward">, .needs = {kOnlyTokenRuns}});
  s.add(c.overlong_penalty, "overlong_penalty", between(0, 1e6),
        "penalty of an answer of the largest length, subtracted from its score; that of shorter ones falls "
        "linearly to 0 over overlong_buffer tokens; 0 = off",
        {.elsewhere = kWords<"overlong_penalty_factor">, .needs = {kOnlyTokenRuns}});
  s.add(c.overlong_buffer, "overlong_buffer", between(0, 65536),
        "tokens before the largest length over which the penalty grows",
        {.elsewhere = kWords<"overlong_tokens">,
         .needs = {kOnlyTokenRuns,
                   {.condition = is_above("algorithm.overlong_penalty", 0),
                    .instead = "set algorithm.overlong_penalty to 1"}}});
  s.add(c.mask_cut_answers, "mask_cut_answers", anything(),
        "true: an answer that was cut at its largest length has no loss; the others of its group are still "
        "compared with its score",
        {.elsewhere = kWords<"mask_truncated_completions">, .needs = {kOnlyTokenRuns}});
  s.add(
      c.policy_filtration, "policy_filtration", one_of(kWords<"none", "pow", "max_min", "max_random">),
      "each update trains on as many answers as it has, drawn with replacement after the "
      "advantages are known (PF-PPO); the weight of an answer: pow: |score| to policy_filtration_power; max_min: 1 "
      "for the largest and the smallest score of the update, else 0; max_random: 0.4 for the largest, else 0.1; none: "
      "off",
      {.elsewhere = kWords<"use_pf_ppo", "pf_ppo", "reweight_method">,
       .needs = {kOnlyTokenRuns, {.condition = is("algorithm.advantage", kWords<"gae">)}}});
  s.add(c.policy_filtration_power, "policy_filtration_power", between(0, kLargestPower),
        "the power of the score; 0 = all answers alike",
        {.elsewhere = kWords<"weight_pow">,
         .needs = {kOnlyTokenRuns, {.condition = is("algorithm.policy_filtration", kWords<"pow">)}}});
  s.add_object(
      c.rollout_correction, "rollout_correction",
      "weights and rejects samples by the distance between the policy at the start of an update and the policy that "
      "sampled them; {} = off");
  s.add(c.proximal, "proximal", one_of(kWords<"computed", "interpolated", "rollout">),
        "the policy that importance ratios are taken to; computed: the one at the "
        "start of the update, with a forward pass of its own; interpolated: an estimate of it from the lags of the "
        "tokens (A-3PO), without one; rollout: the one that sampled the tokens",
        {.elsewhere = kWords<"prox_logp_method">,
         .needs = {kOnlyTokenRuns,
                   {.condition = is_given("algorithm.rollout_correction"),
                    .instead = "set algorithm.rollout_correction.is to \"token\""}}});
}

void describe_losses(AlgorithmConfig& c, Fields& fields) {
  const Section s(fields, "algorithm", "algorithms");
  s.add(c.value_loss, "value_loss", one_of(kWords<"l2", "huber">), "the value loss",
        {.needs = {{.condition = is_above("algorithm.value_coef", 0)}, kWithCritic}});
  s.add(c.value_coef, "value_coef", between(0, 1e6), "weight of the value loss",
        {.elsewhere = kWords<"vf_coef">, .needs = {kWithCritic}});
  s.add(c.value_clip, "value_clip", between(0, 1e6),
        "largest change of a value from its old one before the value loss is clipped; 0 = no clipping",
        {.elsewhere = kWords<"clip_vloss", "clip_range_vf">,
         .needs = {{.condition = is_above("algorithm.value_coef", 0)}, kWithCritic}});
  s.add(c.huber_delta, "huber_delta", above(0, 1e6), "error above which the Huber loss is linear",
        {.needs = {{.condition = is("algorithm.value_loss", kWords<"huber">)}}});
  s.add(c.entropy_coef, "entropy_coef", between(0, 1e6), "weight of the entropy bonus",
        {.elsewhere = kWords<"ent_coef">, .needs = {kLearnedEntropy}});
  s.add(c.entropy_coef_end, "entropy_coef_end", between(-1, 1e6),
        "value of entropy_coef at the end of the run, approached linearly; negative = entropy_coef stays constant",
        {.needs = {kLearnedEntropy}});
  s.add(c.kl, "kl", matching(kTableName, "a name like k3"),
        "the estimate of KL(behaviour || current) for the penalty; kl is k1, mse is k2; a + at the end: with the "
        "gradient of k2; full: exact, in closed form, only with trainer.device cpu; it makes rollouts larger, because "
        "they carry the behaviour policy's parameters",
        {.elsewhere = kWords<"kl_penalty">, .needs = {{.condition = is_above("algorithm.kl_coef", 0)}}});
  s.add(c.kl_coef, "kl_coef", between(0, 1e6), "weight of the KL estimate in the loss");
  s.add(c.kl_controller, "kl_controller", one_of(kWords<"fixed", "adaptive">),
        "fixed: kl_coef is constant; adaptive: kl_coef rises while the KL estimate is above kl_target and falls "
        "while it is below");
  s.add(c.kl_target, "kl_target", above(0, 1e6),
        "target of the KL estimate, per token (not target_kl, which stops epochs)",
        {.needs = {
             {.condition = is("algorithm.kl_controller", kWords<"adaptive">),
              .instead =
                  "set algorithm.kl_controller to \"adaptive\", use algorithm.target_kl (which ends epochs early)"}}});
  s.add(c.kl_horizon, "kl_horizon", above(0, 1e15), "samples over which kl_coef changes by at most a fifth",
        {.needs = {{.condition = is("algorithm.kl_controller", kWords<"adaptive">)}}});
  s.add(c.target_kl, "target_kl", between(0, 1e6),
        "an update runs no further epoch once the metric learner.kl (always the k3 estimate, whatever kl is) is above "
        "this; 0 = off (not kl_target, which is for kl_controller adaptive)",
        {.needs = {{.condition = is_at_least("trainer.epochs", 2)}}});
}

}  // namespace

void describe(AlgorithmConfig& c, Fields& fields) {
  describe_estimator(c, fields);
  describe_surrogate(c, fields);
  describe_losses(c, fields);
}

}  // namespace troupe
