// The choices that a config file makes from the tables.
#include "algorithms/choice/algorithm_choice.h"

#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "actors/config/config.h"
#include "runtime/base/errors.h"
#include "tests/algorithms/choice/chosen_algorithm.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

using Json = nlohmann::ordered_json;

namespace {

AlgorithmChoice chosen(const std::vector<std::string>& overrides) {
  return choose_algorithm(overridden(overrides).algorithm);
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
    const RolloutExtras extras = rollout_extras(overridden(overrides).algorithm);
    return std::vector<bool>{extras.advantages, extras.returns, extras.next_observations, extras.tasks};
  };
  CHECK(carried({}) == std::vector<bool>{true, true, false, false});
  CHECK(carried({"advantage=vtrace"}) == std::vector<bool>{false, false, true, false});
  CHECK(carried({"advantage=grpo", "group_by=task"}) == std::vector<bool>{false, true, false, true});
  CHECK(carried({"advantage=reinforce++"}) == std::vector<bool>{false, true, false, false});
  CHECK(carried({"surrogate=gspo", "rollout_correction.is=token"}) == std::vector<bool>{true, true, false, false});
  for (const char* kl : {"k1", "k3", "low_var_kl+"})
    CHECK_FALSE(rollout_extras(overridden({std::string("kl=") + kl}).algorithm).policy_parameters);
  for (const char* kl : {"full", "full+"})
    CHECK(rollout_extras(overridden({std::string("kl=") + kl}).algorithm).policy_parameters);
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
    AlgorithmConfig config = overridden(overrides).algorithm;
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

TEST_CASE("algorithm choice: a surrogate that compares the samples of a minibatch rejects micro-batches") {
  RunConfig config = overridden({"surrogate=kl_cov"});
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
