// What settings need to be read: the needs name other settings, and in every kind of run each setting is read or
// refused.

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "actors/config/config.h"
#include "algorithms/advantages/advantages.h"
#include "envs/bridge/make_python_env.h"
#include "envs/c_abi/library_env.h"
#include "runtime/config/effects.h"
#include "runtime/config/fixed_settings.h"
#include "tests/support/config_error.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

struct Base {
  const char* name;
  std::vector<std::string> overrides;
};

const std::vector<Base>& bases() {
  static const std::vector<Base> all = {
      {"ppo", {}},
      {"deterministic", {"deterministic=true"}},
      {"vtrace", {"algorithm.advantage=vtrace"}},
      {"sequences", {"algorithm.advantage=grpo"}},
      {"reuse", {"replay.mode=reuse", "trainer.lr_schedule=wsd"}},
      {"net", {"model.kind=net"}},
      {"token_transformer", {"model.kind=token_transformer"}},
      {"linear", {"model.hidden=[]", "algorithm.value_coef=0"}},
      {"python", {"env.id=gym:CartPole-v1"}},
      {"grpo", {"model.kind=decoder", "algorithm.advantage=grpo"}},
      {"token_ppo", {"model.kind=decoder", "model.critic=separate", "warmup.steps=4"}},
      {"reference",
       {"model.kind=decoder", "algorithm.advantage=rloo", "reference.model=start", "reference.kl_controller=adaptive"}},
      {"reward_model",
       {"model.kind=decoder", "algorithm.advantage=rloo", "reward_model.path=m", "reward_model.computed_by=scorers"}},
      {"verifier", {"model.kind=decoder", "algorithm.advantage=rloo", "task.verifier=py:a.py:b"}},
  };
  return all;
}

RunConfig config_of(const Base& base) {
  RunConfig config;
  config.stop.updates = 100;
  for (const std::string& assignment : base.overrides) apply_override(config, assignment);
  return config;
}

std::string error_of(const RunConfig& config) {
  const std::string error = config_error_of([&] { validate(config); });
  return error == "no error" ? "" : error;
}

// Another legal value of a setting, as in an override.
std::string other_value(const Field& field) {
  static const std::map<std::string, std::string> kSpecial = {
      {"name", "other"},
      {"env.id", "Acrobot-v1"},
      {"env.params", R"({"a":1})"},
      {"evaluation.env_params", R"({"a":1})"},
      {"model.hidden", "[8]"},
      {"model.net", R"({"trunk":[8]})"},
      {"model.decoder", R"({"hidden_size":16})"},
      {"model.lora", R"({"rank":2})"},
      {"algorithm.advantage", "opo"},
      {"algorithm.advantage_params", R"({"gamma":0.5})"},
      {"algorithm.surrogate", "sapo"},
      {"algorithm.surrogate_params", R"({"clip":0.1})"},
      {"algorithm.clip_config", R"({"clip":{"clip":0.1}})"},
      {"algorithm.rollout_correction", R"({"is":"token"})"},
      {"algorithm.kl", "k1"},
      {"reference.kl", "k2"},
      {"task.name", "sort"},
      {"task.params", R"({"digits":2})"},
      {"task.reply", "py:a.py:c"},
      {"task.verifier", "py:a.py:c"},
      {"trainer.device", "cuda"},
      {"inference.device", "cpu"},
      {"evaluation.device", "cpu"},
  };
  if (const auto special = kSpecial.find(field.path); special != kSpecial.end()) return special->second;
  const Setting& setting = field.setting;
  if (const auto* flag = std::get_if<bool*>(&field.value)) return **flag ? "false" : "true";
  if (const auto* text = std::get_if<std::string*>(&field.value)) {
    for (const std::string_view choice : setting.choices)
      if (choice != **text) return std::string(choice);
    return **text + "x";
  }
  if (const auto* number = std::get_if<double*>(&field.value))
    return number_text(**number == setting.high ? (setting.low + setting.high) / 2 : (**number + setting.high) / 2);
  if (std::holds_alternative<std::optional<double>*>(field.value)) return "0.5";
  const auto whole = [&](int64_t value) {
    return std::to_string(static_cast<double>(value) < setting.high ? value + 1 : value - 1);
  };
  if (const auto* value = std::get_if<int64_t*>(&field.value)) return whole(**value);
  if (const auto* value = std::get_if<std::chrono::milliseconds*>(&field.value)) return whole((*value)->count());
  if (const auto* value = std::get_if<std::chrono::microseconds*>(&field.value)) return whole((*value)->count());
  return "7";
}

// The settings that a run refuses because nobody reads them, without those of whole sections.
std::set<std::string> unread(const Base& base) {
  RunConfig config = config_of(base);
  const Fields fields = describe(config);
  std::set<std::string> paths;
  for (const Field& field : fields) {
    const Need* need = unmet_need(fields, field);
    if (need != nullptr && need->refused) paths.insert(field.path);
  }
  return paths;
}

// The conditions of a setting that name no setting, or values that it does not accept.
std::vector<std::string> wrong_conditions(const Field& field, const Fields& fields) {
  std::vector<std::string> wrong;
  for (const Need& need : field.needs)
    for (const Condition& condition : {need.condition, need.other, need.when}) {
      if (condition.path.empty()) continue;
      const Field* other = find_field(fields, condition.path);
      const bool known =
          other != nullptr && std::ranges::all_of(condition.values, [&](std::string_view value) {
            if (other->setting.kind == Setting::Kind::boolean) return value == "true" || value == "false";
            return other->setting.choices.empty() || std::ranges::count(other->setting.choices, value) > 0;
          });
      if (!known) wrong.push_back(field.path + ": " + std::string(condition.path));
    }
  return wrong;
}

}  // namespace

TEST_CASE("setting_needs: every condition names a setting and values that it accepts") {
  RunConfig config;
  const Fields fields = describe(config);
  for (const Field& field : fields) CHECK(wrong_conditions(field, fields) == std::vector<std::string>{});
}

TEST_CASE("setting_needs: in every kind of run, each setting is read or refused by its name") {
  for (const Base& base : bases()) {
    CAPTURE(base.name);
    RunConfig config = config_of(base);
    REQUIRE(error_of(config) == "");
    const Fields fields = describe(config);
    for (const Field& field : fields) {
      RunConfig changed = config;
      apply_override(changed, field.path + '=' + other_value(field));
      REQUIRE_MESSAGE(!(changed == config), field.path);
      const Need* need = unmet_need(fields, field);
      const std::string error = error_of(changed), begin = field.path + ": ";
      const bool refused = error.starts_with(begin) && error.find(" has no effect with ") != std::string::npos;
      CHECK_MESSAGE(refused == (need != nullptr && need->refused), field.path, ": ", error);
    }
  }
}

TEST_CASE("setting_needs: settings of environments are not read in token runs, and the other way round") {
  const std::set<std::string> of_tokens = unread(bases()[9]), of_steps = unread(bases()[0]);
  for (const char* path :
       {"env.id", "rollout.length", "workers.quarantine_after", "workers.restart_backoff_ms", "model.sequence",
        "model.burn_in", "model.log_std", "model.log_std_start", "model.log_std_end", "model.policy_gain",
        "model.hidden", "algorithm.gamma", "algorithm.lambda", "algorithm.bootstrap_on_truncation",
        "algorithm.incomplete", "algorithm.group_by", "algorithm.ratio", "trainer.micro_batch"}) {
    CHECK_MESSAGE(of_tokens.contains(path), path);
    if (std::string(path) != "model.log_std_end" && std::string(path) != "algorithm.incomplete" &&
        std::string(path) != "algorithm.group_by")
      CHECK_MESSAGE(!of_steps.contains(path), path);
  }
  for (const char* path : {"task.name", "tokenizer.kind", "generation.answers", "warmup.steps", "reference.model",
                           "trainer.micro_batch_tokens", "trainer.recompute", "evaluation.answers"}) {
    CHECK_MESSAGE(of_steps.contains(path), path);
    CHECK_MESSAGE(!of_tokens.contains(path), path);
  }
}

TEST_CASE("setting_needs: the settings of processes need an environment in Python or C") {
  const std::set<std::string> built_in = unread(bases()[0]), python = unread(bases()[8]);
  for (const char* path : {"env.python", "env.processes", "env.step_timeout_ms", "env.start_timeout_ms"}) {
    CHECK_MESSAGE(built_in.contains(path), path);
    CHECK_MESSAGE(!python.contains(path), path);
  }
  CHECK(built_in.contains("env.isolate"));
  CHECK(python.contains("env.isolate"));
  const std::set<std::string> library = unread({"library", {"env.id=lib:hill.so"}});
  for (const char* path : {"env.step_timeout_ms", "env.start_timeout_ms", "env.isolate"})
    CHECK_MESSAGE(!library.contains(path), path);
  CHECK(library.contains("env.processes"));
}

TEST_CASE("setting_needs: conditions on environments know every scheme of environments in Python and C") {
  std::istringstream forms(python_schemes());
  for (std::string form; std::getline(forms >> std::ws, form, ',');) {
    REQUIRE_MESSAGE(is_python_id(form), form);
    CHECK_MESSAGE(!unread({"", {"env.id=" + form}}).contains("env.python"), form);
  }
  REQUIRE(is_library_id(kLibraryForm));
  CHECK_FALSE(unread({"", {std::string("env.id=") + kLibraryForm}}).contains("env.isolate"));
  CHECK(unread({"", {"env.id=mujoco:Hopper-v5"}}).contains("env.step_timeout_ms"));
}

TEST_CASE("setting_needs: conditions on estimators say what the table of estimators says") {
  for (const AdvantageEntry& entry : advantage_table()) {
    CAPTURE(entry.name);
    const std::string advantage = "algorithm.advantage=" + std::string(entry.name);
    const std::set<std::string> steps = unread({"steps", {advantage}}),
                                tokens = unread({"tokens", {"model.kind=decoder", advantage}});
    CHECK(steps.contains("algorithm.rho_bar") == !entry.run.importance_weights);
    CHECK(steps.contains("algorithm.incomplete") == !entry.run.sequences);
    CHECK(steps.contains("algorithm.group_by") == ((entry.needs & kNeedsGroups) == 0));
    CHECK(tokens.contains("model.critic") == entry.run.sequences);
    CHECK_FALSE(steps.contains("algorithm.gamma"));
    const bool discounted = !entry.run.sequences || entry.name == "reinforce_plus_plus";
    CHECK(tokens.contains("algorithm.gamma") == !discounted);
    CHECK(tokens.contains("algorithm.lambda") == entry.run.sequences);
  }
}

TEST_CASE("setting_needs: a setting that another one switches off may stay where its need does not refuse") {
  RunConfig config;
  config.stop.updates = 3;
  config.deterministic = true;
  config.network.chunk_bytes = 8192;
  config.stats.interval = std::chrono::milliseconds(20);
  config.trainer.zero = 1;  // with one rank
  CHECK(error_of(config) == "");
  RunConfig defaults;
  CHECK(ignored_settings(describe(config), describe(defaults)) ==
        std::vector<std::string>{"trainer.zero: 1 has no effect with trainer.ranks 1",
                                 "stats.interval_ms: 20 has no effect with deterministic true",
                                 "network.chunk_bytes: 8192 has no effect with deterministic true"});
  CHECK(ignored_settings(describe(defaults), describe(defaults)).empty());
}

TEST_CASE("setting_needs: a run that an older program began with a setting without effect is resumed without it") {
  const std::string stored = R"({"model": {"kind": "decoder"}, "algorithm": {"advantage": "grpo", "gamma": 0.5}})";
  const RunConfig read = parse_config(stored, "config.json", ConfigSource::run);
  CHECK(read.algorithm.gamma == RunConfig().algorithm.gamma);
  CHECK(config_conflicts(upgrade_config(stored), to_json(read), settings_of_run()).empty());
  CHECK(parse_config(stored, "run.json").algorithm.gamma == 0.5);
  const std::string counts = R"({"model": {"kind": "decoder"}, "algorithm": {"advantage": "gae", "gamma": 0.5}})";
  CHECK(parse_config(counts, "config.json", ConfigSource::run).algorithm.gamma == 0.5);
  // A checkpoint has only what may not change, so not the path on which this weight depends.
  const std::string part = R"({"model": {"kind": "decoder"}, "reward_model": {"weight": 2}})";
  CHECK(parse_config(part, "state.json", ConfigSource::run).reward_model.weight == 2);
}

TEST_CASE("setting_needs: help and documentation name the needs") {
  const auto needs_of = [](std::string_view path) {
    for (const SettingInfo& info : describe_fields())
      if (info.path == path) return info.needs;
    return std::string("no such setting");
  };
  CHECK(needs_of("seed") == "");
  CHECK(needs_of("algorithm.huber_delta") == "only with algorithm.value_loss \"huber\"");
  CHECK(needs_of("algorithm.target_kl") == "only with trainer.epochs of at least 2");
  CHECK(needs_of("algorithm.value_loss") ==
        "only with algorithm.value_coef above 0; in token runs only with model.critic \"shared\" or \"separate\"");
  CHECK(needs_of("reference.kl_target") ==
        "only in token runs, with reference.model \"start\", with reference.kl_controller \"adaptive\"");
  CHECK(needs_of("trainer.value_lr") ==
        "only with algorithm.value_coef above 0 or with trainer.weight_decay above 0; in token runs only with "
        "model.critic \"shared\" or \"separate\"");
  CHECK(needs_of("env.isolate") == "only in runs on environments, with an environment in C, lib:FILE.so as env.id");
  CHECK(needs_of("network.chunk_bytes") == "only with deterministic false, else ignored");
  CHECK(needs_of("trainer.zero") == "only with trainer.ranks above 1, else ignored");
  CHECK(needs_of("trainer.redundancy") ==
        "only with trainer.zero above 0; only with trainer.ranks above 1, else ignored; only with deterministic false, "
        "else ignored");
  CHECK(needs_of("network.weights") == "only with deterministic false, else ignored");
  CHECK(needs_of("network.backend") ==
        "only with deterministic false, else ignored; only with trainer.ranks above 1, else ignored");
  CHECK(needs_of("algorithm.entropy_coef") == "only with a learned standard deviation, if actions are continuous");
}
