// The exact error for every possible mistake in the algorithm section.
#include "runtime/base/errors.h"

#include "tests/algorithms/choice/chosen_algorithm.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("algorithm choice: errors for names and parameters contain the path") {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"surrogate=sapo", "surrogate_params.tua_pos=1"},
       "algorithm.surrogate_params.tua_pos: unknown key, did you mean algorithm.surrogate_params.tau_pos?"},
      {{"surrogate_params.tau_pos=1"},
       "algorithm.surrogate_params.tau_pos: unknown key, clip has: clip, clip_low, clip_high, dual_clip"},
      {{"surrogate=sapo", "surrogate_params.tau_pos=0"},
       "algorithm.surrogate_params.tau_pos: 0 is out of range, expected a number above 0"},
      {{"surrogate=sapo", "surrogate_params.tau_pos=high"},
       "algorithm.surrogate_params.tau_pos: \"high\" is a string, expected a number above 0"},
      {{"surrogate=sapo", "surrogate_params.tau_pos=[1]"},
       "algorithm.surrogate_params.tau_pos: [1] is an array, expected a number above 0"},
      {{"surrogate=cispo", "surrogate_params.form=logits"},
       "algorithm.surrogate_params.form: \"logits\" is unknown, expected one of: logp, ratio"},
      {{"surrogate=cispo", "surrogate_params.verl_compat=1"},
       "algorithm.surrogate_params.verl_compat: 1 is a number, expected true or false"},
      {{"surrogate=sapo", "surrogate_params.tau_pos=1", "surrogate_params.sapo_tau_pos=2"},
       "algorithm.surrogate_params.sapo_tau_pos: 2.0 contradicts algorithm.surrogate_params.tau_pos 1.0; remove one of "
       "them"},
      {{"surrogate=sapo", "surrogate_params.tau_pos=1", "clip_config.sapo.tau_pos=2"},
       "algorithm.clip_config.sapo.tau_pos: 2.0 contradicts algorithm.surrogate_params.tau_pos 1.0; remove one of "
       "them"},
      {{"surrogate=sapo", "surrogate_params.ratio_min=0"},
       "algorithm.surrogate_params.ratio_min: 0 is out of range, expected a number above 0, or null"},
      {{"surrogate=sapo", "surrogate_params.tau_pos=null"},
       "algorithm.surrogate_params.tau_pos: null is not a value, expected a number above 0"},
      {{"clip_low=0.3", "surrogate_params.clip_low=0.1"},
       "algorithm.clip_low: 0.3 contradicts algorithm.surrogate_params.clip_low 0.1; remove one of them"},
      {{"clip_low=0.3", "surrogate_params.clip=0.1"},
       "algorithm.clip_low: 0.3 contradicts algorithm.surrogate_params.clip 0.1, which sets clip_low and clip_high; "
       "remove one of them, or set algorithm.surrogate_params.clip_low instead of algorithm.clip_low"},
      {{"surrogate=gspo", "clip_high=0.3", "surrogate_params.eps_clip=0.2"},
       "algorithm.clip_high: 0.3 contradicts algorithm.surrogate_params.eps_clip 0.2, which sets clip_low and "
       "clip_high; remove one of them, or set algorithm.surrogate_params.clip_high instead of algorithm.clip_high"},
      {{"clip_low=0.3", "clip_config.clip.clip=0.1"},
       "algorithm.clip_low: 0.3 contradicts algorithm.clip_config.clip.clip 0.1, which sets clip_low and clip_high; "
       "remove one of them, or set algorithm.clip_config.clip.clip_low instead of algorithm.clip_low"},
      {{"clip_config.sapo.tau_pos=2"},
       "algorithm.clip_config: has no entry for algorithm.surrogate \"clip\", only for: sapo; set algorithm.surrogate "
       "to "
       "one of these"},
      {{"surrogate=sapo", "clip_config.sapo_gate={}", "clip_config.sapo_soft_clip={}"},
       "algorithm.clip_config.sapo_soft_clip: names the same surrogate as algorithm.clip_config.sapo_gate; remove one "
       "of them"},
      {{"clip_config.clip={}", "clip_config.sapo.beta1=1"},
       "algorithm.clip_config.sapo.beta1: unknown key, sapo has: clip, clip_low, clip_high, tau_pos, tau_neg, "
       "saturation, "
       "ratio_min, ratio_max"},
      {{"surrogate=sapo", "dual_clip=3"},
       "algorithm.dual_clip: 3 has no effect with algorithm.surrogate \"sapo\"; set algorithm.surrogate to one with "
       "dual clipping, like \"clip\", or remove algorithm.dual_clip (default null)"},
      {{"dual_clip=1"},
       "algorithm.dual_clip: 1 would clip a ratio of 1, that of an unchanged policy; use 0 (off) or more than 1.2, "
       "like 3"},
      {{"dual_clip=1", "clip_high=5"},
       "algorithm.dual_clip: 1 would clip a ratio of 1, that of an unchanged policy; use 0 (off) or more than 6, like "
       "12"},
      {{"dual_clip=1.1"},
       "algorithm.dual_clip: 1.1 is not above 1 + clip_high 0.2, where the ratio is clipped anyway; use 0 (off) or "
       "more "
       "than 1.2, like 3"},
      {{"surrogate=clip_higher", "dual_clip=1.25"},
       "algorithm.dual_clip: 1.25 is not above 1 + clip_high 0.28, where the ratio is clipped anyway; use 0 (off) or "
       "more than 1.28, like 3"},
      {{"dual_clip=1000000", "clip_high=1000000"},
       "algorithm.dual_clip: 1000000 is not above 1 + clip_high 1000000, where the ratio is clipped anyway; use 0 "
       "(off), or a smaller algorithm.clip_high"},
      {{"advantage_params.gamma=1"},
       "algorithm.advantage_params: {\"gamma\":1} cannot be used with algorithm.advantage \"gae\", whose parameters "
       "are "
       "separate settings: algorithm.gamma, algorithm.lambda"},
      {{"advantage=grpo", "advantage_params.epsilon=-1"},
       "algorithm.advantage_params.epsilon: -1 is out of range, expected a number of at least 0"},
      {{"rho_bar=2"},
       "algorithm.rho_bar: 2 has no effect with algorithm.advantage \"gae\"; set algorithm.advantage to \"vtrace\", or "
       "remove algorithm.rho_bar (default 1)"},
      {{"advantage=vtrace", "pg_rho_bar=2"},
       "algorithm.pg_rho_bar: 2 has no effect with algorithm.vtrace_adv \"unweighted\"; set algorithm.vtrace_adv to "
       "\"pg_rho\", or remove algorithm.pg_rho_bar (default 1)"},
      {{"advantage=grpo", "vtrace_adv=pg_rho"},
       "algorithm.vtrace_adv: \"pg_rho\" has no effect with algorithm.advantage \"grpo\"; set algorithm.advantage to "
       "\"vtrace\", or remove algorithm.vtrace_adv (default \"unweighted\")"},
      {{"advantage=vtrace", "rho_bar=0.5"},
       "algorithm.rho_bar: 0.5 is below algorithm.c_bar 1, V-trace needs rho_bar >= c_bar"},
      {{"advantage=vtrace", "advantage_params.gamma=1"},
       "algorithm.advantage_params: {\"gamma\":1} cannot be used with algorithm.advantage \"vtrace\", whose parameters "
       "are "
       "separate settings: algorithm.gamma, algorithm.lambda, algorithm.rho_bar, ..."},
      {{"incomplete=drop"},
       "algorithm.incomplete: \"drop\" has no effect with algorithm.advantage \"gae\"; set algorithm.advantage to an "
       "estimator for whole sequences, like \"grpo\", or remove algorithm.incomplete (default \"bootstrap\")"},
      {{"advantage=remax", "group_by=task"},
       "algorithm.group_by: \"task\" has no effect with algorithm.advantage \"remax\"; set algorithm.advantage to an "
       "estimator that compares sequences, like \"grpo\", or remove algorithm.group_by (default \"batch\")"},
      {{"whitening=verl", "normalize_advantages=false"},
       "algorithm.normalize_advantages: false contradicts algorithm.whitening \"verl\"; remove one of them"},
      {{"rollout_correction.is=token", "proximal=rollout"},
       "algorithm.proximal: \"rollout\" makes the importance ratio of algorithm.surrogate \"clip\" correct for what "
       "algorithm.rollout_correction.is corrects too; set algorithm.rollout_correction.is to \"none\", or use "
       "\"computed\""},
      {{"rollout_correction.is=token", "proximal=interpolated", "surrogate=reinforce"},
       "algorithm.proximal: \"interpolated\" has no effect with algorithm.surrogate \"reinforce\", which has no "
       "importance ratio; use \"computed\""},
      {{"rollout_correction.is=token", "proximal=interpolated", "rollout_correction.rejection=token_k2",
        R"(rollout_correction.rejection_threshold="0.1")"},
       "algorithm.proximal: \"interpolated\" cannot go with algorithm.rollout_correction.rejection: which tokens "
       "divide "
       "the loss must be known before its first forward pass; use \"computed\""},
      {{"rollout_correction.opsm_delta=0.1", "proximal=interpolated"},
       "algorithm.proximal: \"interpolated\" cannot go with algorithm.rollout_correction.opsm_delta: which tokens "
       "divide "
       "the loss must be known before its first forward pass; use \"computed\""},
      {{"rollout_correction.batch_normalize=true", "proximal=interpolated"},
       "algorithm.proximal: \"interpolated\" cannot go with algorithm.rollout_correction.batch_normalize: the weights "
       "of "
       "the whole super-batch are never known together; use \"computed\""},
      {{"rollout_correction.is=token", "proximal=interpolated", "advantage=vtrace"},
       "algorithm.proximal: \"interpolated\" saves nothing with algorithm.advantage \"vtrace\", for which the policy "
       "at "
       "the start of an update is evaluated anyway; use \"computed\""},
      {{"rollout_correction.iss=token"},
       "algorithm.rollout_correction.iss: unknown key, did you mean algorithm.rollout_correction.is?"},
      {{"rollout_correction.is_low=3"}, "algorithm.rollout_correction.is_low: 3 is above is_threshold 2"},
      {{"rollout_correction.is=none", "rollout_correction.bound=zero"},
       "algorithm.rollout_correction.bound: has no effect with algorithm.rollout_correction.is \"none\"; set "
       "algorithm.rollout_correction.is to \"token\" or \"sequence\", or remove this parameter"},
      {{"rollout_correction.is=none", "rollout_correction.is_threshold=3"},
       "algorithm.rollout_correction.is_threshold: has no effect with algorithm.rollout_correction.is \"none\"; set "
       "algorithm.rollout_correction.is to \"token\" or \"sequence\", or remove this parameter"},
      {{"rollout_correction.rejection=1"},
       "algorithm.rollout_correction.rejection: 1 is a number, expected rules like \"token_k1,seq_mean_k3\""},
      {{"rollout_correction.rejection_threshold=2_3"},
       "algorithm.rollout_correction.rejection_threshold: \"2_3\" has no effect without "
       "algorithm.rollout_correction.rejection"},
      {{"advantage=vtrace", "vtrace_adv=pg_rho", "rollout_correction.is=token"},
       "algorithm.vtrace_adv: \"pg_rho\" and algorithm.rollout_correction both weight advantages by the importance "
       "ratio; remove one of them"},
      {{"advantage=vtrace", "vtrace_adv=pg_rho"},
       "algorithm.vtrace_adv: \"pg_rho\" and algorithm.surrogate \"clip\" both weight advantages by the importance "
       "ratio; remove algorithm.vtrace_adv, or set algorithm.surrogate to \"reinforce\" or \"gpg\""},
      {{"advantage=vtrace", "vtrace_adv=pg_rho", "pg_rho_bar=2", "surrogate=reinforce"}, ""},
  };
  for (const auto& [overrides, error] : cases) {
    CAPTURE(overrides);
    CHECK(error_with(overrides) == error);
  }
  CHECK(
      error_with({"surrogate=cilp"}).starts_with("algorithm.surrogate: unknown name \"cilp\", did you mean \"clip\"?"));
  CHECK(error_with({"surrogate=ppoo"})
            .starts_with(
                "algorithm.surrogate: unknown name \"ppoo\", did you mean \"ppo\"? (known: clip, ppo, ppo_clip, "));
  CHECK(error_with({"advantage=reinforce+"})
            .starts_with("algorithm.advantage: unknown name \"reinforce+\", did you mean \"reinforce++\"?"));
  CHECK(error_with({"advantage=gea"}).starts_with("algorithm.advantage: unknown name \"gea\", did you mean \"gae\"?"));
  CHECK(error_with({"kl=k4"}).starts_with("algorithm.kl: unknown name \"k4\""));
  CHECK(error_with({"dual_clip=3"}) == "");
  CHECK(error_with({"surrogate=sapo", "dual_clip=0"}) == "");
  CHECK(error_with({"clip_low=0.1", "surrogate_params.clip=0.1"}) == "");
  CHECK(error_with({"surrogate_params.clip=0.3", "surrogate_params.clip_low=0.1"}) == "");
  CHECK(error_with({"clip_config.cilp={}"}).starts_with("algorithm.clip_config: unknown name \"cilp\""));
}
