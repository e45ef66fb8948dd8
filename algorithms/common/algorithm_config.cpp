#include "algorithms/common/algorithm_config.h"

namespace troupe {

namespace {

// The libraries that settings are named after are introduced in algorithm_config.h and moments.h.

// A name of a table in algorithms/, which is looked up there.
constexpr std::string_view kTableName = "^[A-Za-z0-9_+-]{1,60}$";

void describe_estimator(AlgorithmConfig& c, Fields& fields) {
  const Section s(fields, "algorithm", "algorithms");
  s.add(c.advantage, "advantage", matching(kTableName, "a name like gae"),
        "the advantage estimator: gae, vtrace, or one for whole sequences", {.elsewhere = kWords<"adv_estimator">});
  s.add_object(c.advantage_params, "advantage_params", "the parameters of an estimator for whole sequences");
  s.add(c.gamma, "gamma", between(0, 1), "discount per decision", {.elsewhere = kWords<"discount">});
  s.add(c.lambda, "lambda", between(0, 1), "weight of longer returns: 0 = one step, 1 = whole returns",
        {.elsewhere = kWords<"gae_lambda", "lam">});
  s.add(c.bootstrap_on_truncation, "bootstrap_on_truncation", anything(),
        "an episode cut off by its time limit is continued by the value of its last state");
  s.add(c.rho_bar, "rho_bar", above(0, 1e6), "V-trace: clip of the importance weight in the value target");
  s.add(c.c_bar, "c_bar", above(0, 1e6), "V-trace: clip of the trace coefficients");
  s.add(c.pg_rho_bar, "pg_rho_bar", above(0, 1e6), "V-trace: clip of the importance weight in the policy gradient");
  s.add(
      c.vtrace_adv, "vtrace_adv", one_of(kWords<"unweighted", "pg_rho">),
      "V-trace: pg_rho multiplies the advantage by the clipped importance weight, which the surrogate's ratio repeats");
  s.add(c.incomplete, "incomplete", one_of(kWords<"bootstrap", "drop">),
        "sequences that do not end in a terminal state: gamma times the value of what follows is added to their last "
        "reward, or they are left out");
  s.add(c.group_by, "group_by", one_of(kWords<"batch", "task">),
        "sequences that estimators with groups compare: all of a super-batch, or those of one task");
  s.add(c.normalize_advantages, "normalize_advantages", anything(),
        "to mean 0 and deviation 1 over the whole super-batch, unless the estimator does that itself");
  s.add(c.whitening, "whitening", matching(kTableName, "a name like auto"),
        "how: as accerl, verl, slime, openrlhf or lm_human_preferences; auto: accerl for gae and vtrace, else none");
}

void describe_surrogate(AlgorithmConfig& c, Fields& fields) {
  const Section s(fields, "algorithm", "algorithms");
  s.add(c.surrogate, "surrogate", matching(kTableName, "a name like clip"), "the policy loss",
        {.elsewhere = kWords<"clip_mode", "policy_loss">});
  s.add_object(c.surrogate_params, "surrogate_params", "the parameters of the surrogate");
  s.add_object(c.clip_config, "clip_config",
               "the same as AcceRL writes them: {surrogate: {parameter: value}}; only the chosen surrogate's count");
  s.add(c.clip_low, "clip_low", above(0, 1), "importance ratios below 1 - clip_low are clipped",
        {.unset = "the surrogate's own", .elsewhere = kWords<"clip_coef", "clip_range", "clip_eps">});
  s.add(c.clip_high, "clip_high", above(0, 1e6), "importance ratios above 1 + clip_high are clipped",
        {.unset = "the surrogate's own", .elsewhere = kWords<"clip_coef", "clip_range", "clip_eps">});
  s.add(c.dual_clip, "dual_clip", between(0, 1e6),
        "bound above 1 of the ratio where the advantage is negative; 0 = off", {.unset = "the surrogate's own"});
  s.add(c.ratio, "ratio", one_of(kWords<"joint", "per_dimension">),
        "one importance ratio per action, or one per action dimension");
  s.add(c.aggregation, "aggregation",
        one_of(kWords<"auto", "token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm">),
        "how the policy losses of tokens become one number; auto: as the surrogate's source does",
        {.elsewhere = kWords<"loss_agg_mode">});
  s.add(c.aggregation_length, "aggregation_length", between(0, 1e9),
        "divisor of seq-mean-token-sum-norm, in tokens; 0 = those of rollout.length steps");
  s.add_object(c.rollout_correction, "rollout_correction",
               "importance weights and rejection of samples by the distance of the policy at the start of an update "
               "from the one that acted; {} = off");
}

void describe_losses(AlgorithmConfig& c, Fields& fields) {
  const Section s(fields, "algorithm", "algorithms");
  s.add(c.value_loss, "value_loss", one_of(kWords<"l2", "huber">), "the value loss");
  s.add(c.value_coef, "value_coef", between(0, 1e6), "weight of the value loss", {.elsewhere = kWords<"vf_coef">});
  s.add(c.value_clip, "value_clip", between(0, 1e6),
        "largest move of a value in one update that the loss rewards; 0 = off");
  s.add(c.huber_delta, "huber_delta", above(0, 1e6), "error at which the Huber loss turns linear");
  s.add(c.entropy_coef, "entropy_coef", between(0, 1e6), "weight of the entropy bonus",
        {.elsewhere = kWords<"ent_coef">});
  s.add(c.entropy_coef_end, "entropy_coef_end", between(-1, 1e6),
        "where a linear schedule of entropy_coef ends; negative = constant");
  s.add(c.kl, "kl", matching(kTableName, "a name like k3"),
        "the KL estimate (behaviour to current) of the penalty: k1, abs, k2, k3 or low_var_kl; a name with + at its "
        "end has the gradient of k2; or full: the closed form, for which rollouts carry the behaviour policy's "
        "parameters",
        {.elsewhere = kWords<"kl_penalty">});
  s.add(c.kl_coef, "kl_coef", between(0, 1e6), "weight of the KL estimate in the loss");
  s.add(c.kl_controller, "kl_controller", one_of(kWords<"fixed", "adaptive">),
        "adaptive: kl_coef is moved towards a KL estimate of kl_target");
  s.add(c.kl_target, "kl_target", above(0, 1e6), "KL estimate per token that adaptive aims at");
  s.add(c.kl_horizon, "kl_horizon", above(0, 1e15), "samples over which adaptive moves kl_coef by up to a fifth");
  s.add(c.target_kl, "target_kl", between(0, 1e6), "an update's epochs stop when the KL estimate passes this; 0 = off");
}

}  // namespace

void describe(AlgorithmConfig& c, Fields& fields) {
  describe_estimator(c, fields);
  describe_surrogate(c, fields);
  describe_losses(c, fields);
}

}  // namespace troupe
