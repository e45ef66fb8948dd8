// The choices that a config file makes from the tables, and the exact error for every possible mistake.
#include "algorithms/choice/algorithm_choice.h"

#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "actors/config/config.h"
#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;
using Json = nlohmann::ordered_json;

namespace {

RunConfig with(const std::vector<std::string>& overrides) {
  RunConfig config;
  for (const std::string& assignment : overrides) apply_override(config, "algorithm." + assignment);
  return config;
}

AlgorithmChoice chosen(const std::vector<std::string>& overrides) {
  return choose_algorithm(with(overrides).algorithm);
}

std::string error_with(const std::vector<std::string>& overrides) {
  const RunConfig config = with(overrides);
  try {
    check_algorithm(config.algorithm, config.trainer.micro_batch);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("algorithm choice: the defaults are clipped PPO on GAE") {
  const AlgorithmChoice choice = chosen({});
  CHECK(choice.advantage->name == "gae");
  CHECK(choice.surrogate.entry->name == "clip");
  CHECK(choice.aggregation == Aggregation::token_mean);
  CHECK(choice.whitening.has_value());
  CHECK(choice.kl.kind == KlKind::k3);
  CHECK_FALSE(choice.correction.has_value());
  CHECK_FALSE(choice.sequences);
  CHECK_FALSE(choice.whole_sequences);
  CHECK_FALSE(choice.columns);
  CHECK_FALSE(choice.start);
  CHECK(error_with({}) == "");
}

TEST_CASE("algorithm choice: every name and alias of the tables is accepted") {
  for (const AdvantageEntry& entry : advantage_table()) {
    CAPTURE(entry.name);
    const AlgorithmChoice choice = chosen({"advantage=" + std::string(entry.name)});
    CHECK(choice.advantage == &entry);
    CHECK(choice.sequences == entry.run.sequences);
    CHECK(choice.columns == entry.run.columns);
    for (const std::string_view alias : entry.aliases)
      CHECK(chosen({"advantage=" + std::string(alias)}).advantage == &entry);
  }
  for (const SurrogateEntry& entry : surrogate_table()) {
    CAPTURE(entry.name);
    CHECK(chosen({"surrogate=" + std::string(entry.name)}).surrogate.entry == &entry);
    for (const SurrogateAlias& alias : entry.aliases)
      if (!alias.name.empty()) CHECK(chosen({"surrogate=" + std::string(alias.name)}).surrogate.entry == &entry);
  }
  CHECK(chosen({"surrogate=soft_clip_alpha-2"}).surrogate.parameters.number("alpha") == 2);
}

TEST_CASE("algorithm choice: rollouts carry the inputs of their estimator, and nothing that would be replaced") {
  const auto carried = [](const std::vector<std::string>& overrides) {
    const RolloutExtras extras = rollout_extras(with(overrides).algorithm);
    return std::vector<bool>{extras.advantages, extras.returns, extras.next_observations, extras.tasks};
  };
  CHECK(carried({}) == std::vector<bool>{true, true, false, false});
  CHECK(carried({"advantage=vtrace"}) == std::vector<bool>{false, false, true, false});
  CHECK(carried({"advantage=grpo", "group_by=task"}) == std::vector<bool>{false, true, false, true});
  CHECK(carried({"advantage=reinforce++"}) == std::vector<bool>{false, true, false, false});
  CHECK(carried({"surrogate=gspo", "rollout_correction.is=token"}) == std::vector<bool>{true, true, false, false});
  for (const char* kl : {"k1", "k3", "low_var_kl+"})
    CHECK_FALSE(rollout_extras(with({std::string("kl=") + kl}).algorithm).policy_parameters);
  for (const char* kl : {"full", "full+"})
    CHECK(rollout_extras(with({std::string("kl=") + kl}).algorithm).policy_parameters);
  CHECK(error_with({"kl=full", "kl_coef=0.1"}).empty());
}

TEST_CASE("algorithm choice: batches are whole columns and begin with a forward pass only if needed") {
  const auto needed = [](const std::vector<std::string>& overrides) {
    const AlgorithmChoice choice = chosen(overrides);
    return std::pair(choice.columns, choice.start);
  };
  CHECK(needed({"advantage=vtrace"}) == std::pair(true, true));
  CHECK(needed({"advantage=grpo"}) == std::pair(true, false));
  CHECK(needed({"advantage=optimal_token_baseline"}) == std::pair(true, true));
  CHECK(needed({"surrogate=gspo"}) == std::pair(true, false));
  CHECK(needed({"rollout_correction.is=token"}) == std::pair(true, true));
  CHECK(needed({"surrogate=cispo"}) == std::pair(false, false));
}

TEST_CASE("algorithm choice: whole sequences if the surrogate or the aggregation needs them") {
  CHECK(chosen({"surrogate=gspo"}).whole_sequences);
  CHECK(chosen({"surrogate=gspo"}).aggregation == Aggregation::seq_mean_token_mean);
  CHECK(chosen({"surrogate=gspo", "aggregation=token-mean"}).aggregation == Aggregation::token_mean);
  CHECK(chosen({"aggregation=seq-mean-token-sum"}).whole_sequences);
  CHECK_FALSE(chosen({"advantage=grpo"}).whole_sequences);
  CHECK(chosen({"advantage=grpo"}).sequences);
  CHECK(chosen({"rollout_correction.is=token"}).sequences);
}

TEST_CASE("algorithm choice: parameters come from their object, from clip_config and from the common settings") {
  CHECK(chosen({"surrogate=sapo", "surrogate_params.tau_pos=2"}).surrogate.parameters.number("tau_pos") == 2);
  const AlgorithmChoice mapped = chosen({"surrogate=sapo_gate", R"(clip_config={"sapo_soft_clip": {"tau_neg": 2,
      "sapo_w_thresh": 0.1, "ratio_min": 1e-6, "ratio_max": 1e6}, "ce-gppo_clip": {"beta1": 0.5}})"});
  CHECK(mapped.surrogate.parameters.number("tau_neg") == 2);
  CHECK(mapped.surrogate.parameters.number("saturation") == 0.1);
  CHECK(mapped.surrogate.parameters.number("ratio_max") == 1e6);
  const AlgorithmChoice cispo =
      chosen({"surrogate=is_clip", R"(clip_config={"cispo": {"eps_is_low": null, "eps_is_high": 0.3}})"});
  CHECK(std::isnan(cispo.surrogate.parameters.number("clip_low")));
  CHECK(cispo.surrogate.parameters.number("clip_high") == 0.3);
  CHECK(chosen({"surrogate=soft_clip", R"(clip_config={"soft_clip_alpha-2": {"soft_clip_alpha": 3}})"})
            .surrogate.parameters.number("alpha") == 3);
  CHECK(chosen({"clip_high=0.28"}).surrogate.parameters.number("clip_high") == 0.28);
  CHECK(chosen({"surrogate=dual_clip"}).surrogate.parameters.number("dual_clip") == 3);
  CHECK(chosen({"surrogate=dual_clip", "dual_clip=4"}).surrogate.parameters.number("dual_clip") == 4);
  CHECK(chosen({"advantage=reinforce++"}).advantage_parameters.number("gamma") == 0.99);
  CHECK(chosen({"advantage=reinforce++", "advantage_params.gamma=1"}).advantage_parameters.number("gamma") == 1);
}

TEST_CASE("algorithm choice: a given common parameter is used even if it equals a default") {
  const auto parameter = [](const std::vector<std::string>& overrides, const char* key) {
    return chosen(overrides).surrogate.parameters.number_or(key, -1);
  };
  CHECK(parameter({"surrogate=clip_higher"}, "clip_high") == 0.28);
  CHECK(parameter({"surrogate=clip_higher", "clip_high=0.2"}, "clip_high") == 0.2);
  CHECK(parameter({"surrogate=clip_higher", "clip_high=null"}, "clip_high") == 0.28);
  CHECK(parameter({"surrogate=dual_clip", "dual_clip=0"}, "dual_clip") == 0);
  CHECK(parameter({"surrogate=dual_clip", "dual_clip=null"}, "dual_clip") == 3);
  CHECK(parameter({}, "clip_low") == -1);
  CHECK(parameter({"clip_low=0.2"}, "clip_low") == 0.2);
  CHECK(error_with({"clip_low=0.2", "surrogate_params.clip=0.1"}).starts_with("algorithm.clip_low: 0.2 contradicts "));
}

TEST_CASE("algorithm choice: aliases are stored as the table name and mean the same") {
  const auto stored = [](const std::vector<std::string>& overrides) {
    AlgorithmConfig config = with(overrides).algorithm;
    use_canonical_spelling(config);
    return config;
  };
  CHECK(stored({"advantage=reinforce++"}).advantage == "reinforce_plus_plus");
  CHECK(stored({"surrogate=ppo"}).surrogate == "clip");
  CHECK(stored({"surrogate=gmpo"}).surrogate == "geo_mean");
  CHECK(stored({"surrogate=clip_higher"}).surrogate == "clip_higher");  // the alias sets a parameter
  CHECK(stored({"surrogate=sapo_gate", "clip_config.sapo_gate={}"}).surrogate == "sapo_gate");
  CHECK(stored({"kl=mse+"}).kl == "k2+");
  CHECK(stored({"kl=kl"}).kl == "k1");
  CHECK(stored({"kl=low_var_kl"}).kl == "low_var_kl");
  CHECK(stored({"entropy_coef_end=-0.5"}).entropy_coef_end == -1);
  CHECK(stored({}) == AlgorithmConfig{});
  for (const AdvantageEntry& entry : advantage_table())
    CHECK(stored({"advantage=" + std::string(entry.name)}).advantage == entry.name);
  for (const SurrogateEntry& entry : surrogate_table())
    for (const SurrogateAlias& alias : entry.aliases) {
      if (alias.name.empty()) continue;
      const AlgorithmConfig config = stored({"surrogate=" + std::string(alias.name)});
      CHECK(choose_algorithm(config).surrogate.entry == &entry);
    }
}

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

TEST_CASE("algorithm choice: a surrogate that compares the samples of a minibatch rejects micro-batches") {
  RunConfig config = with({"surrogate=kl_cov"});
  CHECK_NOTHROW(check_algorithm(config.algorithm, 0));
  CHECK_THROWS_WITH_AS(check_algorithm(config.algorithm, 16),
                       "trainer.micro_batch: 16 would split minibatches, but algorithm.surrogate \"kl_cov\" compares "
                       "all samples of a minibatch; use 0",
                       ConfigError);
  CHECK_THROWS_WITH_AS(check_algorithm(config.algorithm, 0, 4096),
                       "trainer.micro_batch_tokens: 4096 would split minibatches, but algorithm.surrogate \"kl_cov\" "
                       "compares all samples of a minibatch; use 0",
                       ConfigError);
}

TEST_CASE("algorithm choice: rollout correction is read") {
  const AlgorithmChoice choice = chosen({R"(rollout_correction={"is": "token", "is_threshold": 3, "bound": "zero",
      "rejection": "token_k1,seq_max_k2", "rejection_threshold": "0.5_2.0,0.1", "opsm_delta": 1e-4})"});
  REQUIRE(choice.correction.has_value());
  CHECK(choice.correction->level == WeightLevel::token);
  CHECK(choice.correction->bound == WeightBound::zero);
  CHECK(choice.correction->high == 3);
  CHECK(choice.correction->opsm_delta == 1e-4);
  REQUIRE(choice.correction->rules.size() == 2);
  CHECK(choice.correction->rules[1].over == RejectionRule::Over::seq_max);
}

TEST_CASE("algorithm choice: the KL estimates listed by help are accepted and stored unchanged") {
  const std::vector<std::string> names = names_for("algorithm.kl");
  CHECK(names.size() == 12);  // six, and six with +
  for (const std::string& name : names) {
    CHECK_NOTHROW(find_kl(name));
    CHECK(canonical_kl(name) == name);
  }
}

TEST_CASE("algorithm choice: help names the default bounds of clip for unset common settings") {
  const ParameterValues clip = chosen({}).surrogate.parameters;
  const std::string bound = number_text(clip.number("clip")) + " for clip";
  for (const SettingInfo& field : describe_fields())
    if (field.path == "algorithm.clip_low" || field.path == "algorithm.clip_high")
      CHECK(field.help.find(bound) != std::string::npos);
  CHECK(clip.number("dual_clip") == 0);  // off
}

TEST_CASE("algorithm choice: every parameter of the tables is in the settings and in the schema") {
  std::set<std::string> fields;
  for (const ChoiceParameters& choice : algorithm_parameters())
    for (const SettingInfo& each : choice.parameters) {
      fields.insert(choice.path + '/' + choice.choice + '/' + each.path);
      CHECK_FALSE(each.help.empty());
      CHECK_NOTHROW(Json::parse(each.fallback));
    }
  const Json section = Json::parse(algorithm_schema(json_schema())).at("properties").at("algorithm");
  std::set<std::string> in_schema;
  for (const Json& rule : section.at("allOf"))
    for (const char* kind : {"advantage", "surrogate"}) {
      if (!rule.at("if").at("properties").contains(kind)) continue;
      const std::string name = rule.at("if").at("properties").at(kind).at("enum").at(0),
                        params = std::string(kind) + "_params";
      const Json& object = rule.at("then").at("properties").at(params);
      CHECK(object.at("additionalProperties") == false);
      for (const auto& [key, value] : object.at("properties").items())
        in_schema.insert("algorithm." + params + '/' + name + '/' + key);
    }
  size_t surrogates = 0;
  for (const SurrogateEntry& entry : surrogate_table()) {
    for (const Setting& p : entry.parameters) {
      const std::string name = "algorithm.surrogate_params/" + std::string(entry.name) + '/' + std::string(p.key);
      CHECK(fields.contains(name));
      CHECK(in_schema.contains(name));
    }
    surrogates += 1;
    for (const SurrogateAlias& alias : entry.aliases) surrogates += !alias.name.empty();
  }
  for (const AdvantageEntry& entry : advantage_table())
    for (const Setting& p : entry.parameters) {
      const std::string name = "algorithm.advantage_params/" + std::string(entry.name) + '/' + std::string(p.key);
      CHECK(fields.contains(name) == entry.run.sequences);
      CHECK(in_schema.contains(name) == entry.run.sequences);
    }
  CHECK(section.at("properties").at("surrogate").at("enum").size() == surrogates);
  for (const std::string& kl : section.at("properties").at("kl").at("enum").get<std::vector<std::string>>())
    CHECK_NOTHROW(find_kl(kl));
  CHECK(section.at("properties").at("rollout_correction").at("properties").contains("rejection"));
}
