#include "actors/config/config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "actors/config/foreign_names.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/suggest.h"
#include "runtime/config/fields.h"
#include "tests/actors/config/config_cases.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// The text of the ConfigError that `action` throws, or "".
template <class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string parse_error(const std::string& text) {
  return error_of([&] { parse_config(text, "run.json"); });
}

RunConfig with(const std::vector<std::string>& overrides) {
  RunConfig config;
  for (const std::string& assignment : overrides) apply_override(config, assignment);
  return config;
}

// Converts to any type. The number of these that initialise an aggregate is the number of its members.
struct Any {
  template <class T>
  operator T() const;
};
struct AnyOptional {  // for optional members, where the conversion of an Any is ambiguous
  operator std::optional<double>() const;
};
template <class T, class... Members>
constexpr size_t member_count() {
  if constexpr (requires { T{Members{}..., Any{}}; })
    return member_count<T, Members..., Any>();
  else if constexpr (requires { T{Members{}..., AnyOptional{}}; })
    return member_count<T, Members..., AnyOptional>();
  else
    return sizeof...(Members);
}

template <class Section>
void check_all_described(const char* name) {
  RunConfig config;
  size_t described = 0;
  for (const Field& field : describe(config)) described += field.section() == name;
  CAPTURE(name);
  CHECK(described == member_count<Section>());
}

// A value other than the default, within the field's limits.
struct Alter {
  const Field& field;
  void operator()(bool* value) const { *value = !*value; }
  void operator()(int64_t* value) const { *value += *value < field.setting.high ? 1 : -1; }
  void operator()(uint64_t* value) const { *value = std::numeric_limits<uint64_t>::max(); }
  void operator()(double* value) const { *value = *value == 0.1 + 0.2 ? 0.7 : 0.1 + 0.2; }
  void operator()(std::optional<double>* value) const { *value = 0.1 + 0.2; }
  void operator()(std::string* value) const {
    for (const std::string_view choice : field.setting.choices)
      if (choice != *value) *value = choice;
    if (field.setting.choices.empty())
      *value = field.key() == "device"                               ? "cuda:1"
               : field.key() == "verifier" || field.key() == "reply" ? "py:other:call"
                                                                     : "Other-1";
  }
  void operator()(std::vector<int64_t>* value) const { *value = {7, 65536}; }
  void operator()(std::chrono::milliseconds* value) const { ++*value; }
  void operator()(std::chrono::microseconds* value) const { ++*value; }
  void operator()(ObjectText value) const { *value.text = R"({"a":[1,2.5],"b":{"c":"x\ny"}})"; }
};

}  // namespace

TEST_CASE("config: the list of fields contains every member of every section") {
  check_all_described<EnvConfig>("env");
  check_all_described<WorkersConfig>("workers");
  check_all_described<RolloutConfig>("rollout");
  check_all_described<InferenceConfig>("inference");
  check_all_described<ReplayConfig>("replay");
  check_all_described<ModelConfig>("model");
  check_all_described<AlgorithmConfig>("algorithm");
  check_all_described<TrainerConfig>("trainer");
  check_all_described<StopConfig>("stop");
  check_all_described<EvaluationConfig>("evaluation");
  check_all_described<CheckpointConfig>("checkpoint");
  check_all_described<StatsConfig>("stats");
  check_all_described<NetworkConfig>("network");
  check_all_described<TaskConfig>("task");
  check_all_described<TokenizerConfig>("tokenizer");
  check_all_described<GenerationConfig>("generation");
  check_all_described<WarmupConfig>("warmup");
  RunConfig config;
  std::set<std::string_view> sections;
  size_t top_level = 0;
  for (const Field& field : describe(config))
    field.section().empty() ? void(++top_level) : void(sections.insert(field.section()));
  CHECK(top_level + sections.size() == member_count<RunConfig>());
}

TEST_CASE("config: no two fields have the same path or member, and each has help") {
  RunConfig config;
  std::set<std::string_view> paths;
  std::set<const void*> members;
  for (const Field& field : describe(config)) {
    CHECK(paths.insert(field.path).second);
    const auto address = [](auto member) -> const void* {
      if constexpr (std::is_same_v<decltype(member), ObjectText>)
        return member.text;
      else
        return member;
    };
    CHECK(members.insert(std::visit(address, field.value)).second);
    CHECK(!field.setting.help.empty());
  }
}

TEST_CASE("config: an empty object gives the defaults, which are valid") {
  CHECK(parse_config("{}", "run.json") == RunConfig{});
  CHECK(error_of([] { validate(RunConfig{}); }) == "");
}

TEST_CASE("config: a changed value of any field is the same after writing and reading") {
  RunConfig defaults;
  const size_t count = describe(defaults).size();
  CHECK(count > 80);
  for (size_t i = 0; i < count; ++i) {
    RunConfig config;
    const Field field = describe(config)[i];
    CAPTURE(field.path);
    std::visit(Alter{field}, field.value);
    if (field.setting.choices.size() != 1) CHECK(config != defaults);
    CHECK(parse_config(to_json(config), "run.json") == config);
  }
}

TEST_CASE("config: doubles are the same to the last bit after writing and reading") {
  for (const double value : {0.1, 1.0 / 3.0, 1e-300, 5e-324, 123456789.123456789, 1e9, std::nextafter(1.0, 0.0)}) {
    RunConfig config;
    config.stop.seconds = value;
    CHECK(parse_config(to_json(config), "run.json").stop.seconds == value);
  }
  RunConfig negative_zero;
  negative_zero.stop.eval_return = -0.0;
  CHECK(std::signbit(parse_config(to_json(negative_zero), "run.json").stop.eval_return));
}

TEST_CASE("config: integers at the ends of their range are read exactly") {
  CHECK(parse_config(R"({"seed": 18446744073709551615})", "run.json").seed == std::numeric_limits<uint64_t>::max());
  CHECK(parse_config(R"({"seed": 0})", "run.json").seed == 0);
  CHECK(parse_config(R"({"stop": {"env_steps": 1000000000000000}})", "run.json").stop.env_steps ==
        1'000'000'000'000'000);
}

TEST_CASE("config: an integer may be written with an exponent or a fraction of zero") {
  CHECK(parse_config(R"({"stop": {"env_steps": 1e6}})", "run.json").stop.env_steps == 1'000'000);
  CHECK(parse_config(R"({"env": {"rows": 8.0}})", "run.json").env.rows == 8);
  CHECK(parse_config(R"({"algorithm": {"gamma": 1}})", "run.json").algorithm.gamma == 1.0);
}

TEST_CASE("config: the suffix of a key gives the unit of a duration") {
  const RunConfig config =
      parse_config(R"({"inference": {"timeout_us": 250}, "network": {"heartbeat_ms": 20}})", "run.json");
  CHECK(config.inference.timeout == std::chrono::microseconds(250));
  CHECK(config.network.heartbeat == std::chrono::milliseconds(20));
}

TEST_CASE("config: environment parameters are kept as compact text in their order") {
  const RunConfig config = parse_config("{\"env\": {\"params\": {\"z\": 1,\n \"a\": [true, null]}}}", "run.json");
  CHECK(config.env.params == R"({"z":1,"a":[true,null]})");
}

TEST_CASE("config: comments are allowed in a config file, not in the config.json of a run or in --set") {
  const std::string text = "// fast\n{/* one */ \"seed\": 7, // \"seed\": 8\n \"name\": \"a//b\"}";
  CHECK(parse_error(text).starts_with("run.json: name: \"a//b\" is not allowed"));
  CHECK(parse_config("// fast\n{/* one */ \"seed\": 7 // \"seed\": 8\n}\n// end", "run.json").seed == 7);
  CHECK(error_of([] { parse_config("{} // old", "config.json", ConfigSource::run); }) ==
        "config.json:1:4: not valid JSON: JSON has no comments");
  CHECK(error_of([] { with({"seed=7 // mine"}); }) ==
        "--set: seed: 7 // mine is not a JSON value, expected an integer in [0, 18446744073709551615]");
}

TEST_CASE("config: a byte order mark is skipped") {
  CHECK(parse_config("\xEF\xBB\xBF{\"seed\": 7}", "run.json").seed == 7);
}

TEST_CASE("config: each wrong file gives its exact one-line error") {
  for (const test::BadFile& bad : test::bad_files()) {
    CAPTURE(bad.name);
    const std::string error = parse_error(bad.text);
    CHECK(error == "run.json" + bad.error);
    CHECK(error.find('\n') == std::string::npos);
  }
}

TEST_CASE("config: a file at the limits of nesting and size is read") {
  CHECK(parse_error(R"({"env": {"params": {"a": [[[[1]]]]}}})") == "");
  CHECK(parse_error("{}" + std::string((1 << 20) - 2, ' ')) == "");
}

TEST_CASE("config: the error of load_config says why a file cannot be read") {
  CHECK(error_of([] { load_config("no/such/run.json"); }) ==
        "no/such/run.json: cannot open: No such file or directory");
  CHECK(error_of([] { load_config("tests"); }) == "tests: is a directory, expected a regular file");
  CHECK(error_of([] { load_config("/dev/zero"); }) == "/dev/zero: is a device, expected a regular file");
  CHECK(error_of([] { load_config("/dev/null"); }) == "/dev/null: is a device, expected a regular file");
}

// tests/actors/config/format_1.json was written as config.json by `troupe train cartpole --set stop.updates=2` of a
// version of troupe with config format 1.
TEST_CASE("config: config.json of a run of format 1 keeps its meaning") {
  const std::string path = "tests/actors/config/format_1.json", old = posix_disk().read(path);
  const RunConfig unchanged = parse_config(old, "config.json", ConfigSource::run);
  CHECK_FALSE(unchanged.algorithm.clip_low.has_value());
  CHECK_FALSE(unchanged.algorithm.clip_high.has_value());
  CHECK_FALSE(unchanged.algorithm.dual_clip.has_value());
  CHECK(unchanged.stop.updates == 2);
  CHECK(config_conflicts(upgrade_config(old), to_json(unchanged), settings_of_run()).empty());
  std::string changed = old;
  changed.replace(changed.find("\"clip_high\": 0.2"), 16, "\"clip_high\": 0.3");
  changed.replace(changed.find("\"dual_clip\": 0.0"), 16, "\"dual_clip\": 3.0");
  const RunConfig config = parse_config(changed, "config.json", ConfigSource::run);
  CHECK_FALSE(config.algorithm.clip_low.has_value());
  CHECK(config.algorithm.clip_high == 0.3);
  CHECK(config.algorithm.dual_clip == 3.0);
  // A checkpoint holds some of the settings only.
  CHECK_FALSE(parse_config(R"({"seed": 1, "algorithm": {"clip_low": 0.2}})", "x", ConfigSource::run)
                  .algorithm.clip_low.has_value());
}

TEST_CASE("config: in the current format a clip equal to the default of format 1 counts as set") {
  CHECK(parse_config(R"({"algorithm": {"clip_high": 0.2}})", "run.json").algorithm.clip_high == 0.2);
  const std::string all = posix_disk().read("tests/actors/config/format_1.json");  // a user's file with every setting
  CHECK(parse_config(all, "run.json").algorithm.clip_high == 0.2);
  RunConfig config;
  config.algorithm.clip_low = config.algorithm.clip_high = 0.2;
  config.algorithm.dual_clip = 0;
  for (const ConfigSource source : {ConfigSource::run, ConfigSource::user})
    CHECK(parse_config(to_json(config), "config.json", source) == config);
  CHECK(parse_config(upgrade_config(to_json(config)), "config.json") == config);
}

TEST_CASE("config: an unknown format is refused") {
  CHECK(parse_error(R"({"format": 3})") == "run.json: format: 3 is out of range, expected an integer in [1, 2]");
  CHECK(parse_error(R"({"format": "2"})") == "run.json: format: \"2\" is a string, expected an integer in [1, 2]");
  CHECK(parse_error(R"({"format": null})") == "run.json: format: null is not a value, expected an integer in [1, 2]");
}

TEST_CASE("config: yes, no, on and off of YAML 1.1 are refused, and the error names true and false") {
  for (const std::string word : {"on", "off", "yes", "no", "Off", "YES"})
    CHECK(error_of([&] { parse_yaml_config("deterministic: " + word + "\n", "run.yaml"); }) ==
          "run.yaml: deterministic: \"" + word +
              "\" is a string, expected true or false; YAML 1.2 has only true and false");
  CHECK(parse_yaml_config("deterministic: True\n", "run.yaml").deterministic);
  CHECK(error_of([] { parse_yaml_config("deterministic: fast\n", "run.yaml"); }) ==
        "run.yaml: deterministic: \"fast\" is a string, expected true or false");
}

TEST_CASE("config: a section of YAML without keys is refused as empty") {
  CHECK(error_of([] { parse_yaml_config("algorithm:\n  # gamma: 0.9\nseed: 3\n", "run.yaml"); }) ==
        "run.yaml: algorithm: is empty; remove it or give it keys");
}

TEST_CASE("override: JSON values and bare words are set") {
  const RunConfig config = with({"algorithm.gamma=0.5", "model.hidden=[8, 8]", "replay.mode=reuse", "name=a-b",
                                 "trainer.device=\"cuda:0\"", "stop.env_steps=1e6", "deterministic=true", "seed=9"});
  CHECK(config.algorithm.gamma == 0.5);
  CHECK(config.model.hidden == std::vector<int64_t>{8, 8});
  CHECK(config.replay.mode == "reuse");
  CHECK(config.trainer.device == "cuda:0");
  CHECK(config.stop.env_steps == 1'000'000);
  CHECK(config.deterministic);
  CHECK(config.seed == 9);
}

TEST_CASE("override: a single environment parameter can be set") {
  CHECK(with({R"(env.params={"a":1})", "env.params.b=2.5", "env.params.c=fast", "env.params.a=7"}).env.params ==
        R"({"a":7,"b":2.5,"c":"fast"})");
}

TEST_CASE("override: a single parameter in an object of the algorithm section can be set by its path with dots") {
  CHECK(with({"algorithm.surrogate_params.tau_pos=2"}).algorithm.surrogate_params == R"({"tau_pos":2})");
  CHECK(with({"algorithm.clip_config.sapo.tau_pos=2", "algorithm.clip_config.sapo.tau_neg=3"}).algorithm.clip_config ==
        R"({"sapo":{"tau_pos":2,"tau_neg":3}})");
}

TEST_CASE("override: setting an item of a list inside an object is refused with the path of the list") {
  RunConfig config = with({R"(model.net={"encoders": {"image": {"layers": [{"channels": 4, "kernel": 3}]}}})"});
  for (const char* item : {".0.stride", ".0", ".first.a.b"}) {
    const std::string list = "model.net.encoders.image.layers";
    CHECK(error_of([&] { apply_override(config, list + item + "=2"); }) ==
          "--set: " + list + item + ": a list is replaced as a whole: --set '" + list + "=[...]'");
  }
  apply_override(config, R"(model.net.encoders.image.layers=[{"channels": 8, "kernel": 3}])");
  CHECK(config.model.net == R"({"encoders":{"image":{"layers":[{"channels":8,"kernel":3}]}}})");
}

TEST_CASE("override: each wrong assignment gives its exact one-line error and changes nothing") {
  const std::pair<std::string, std::string> cases[] = {
      {"", "--set : expected path=value, like algorithm.gamma=0.98"},
      {"algorithm.gamma", "--set algorithm.gamma: expected path=value, like algorithm.gamma=0.98"},
      {"=1", "--set =1: expected path=value, like algorithm.gamma=0.98"},
      {"algorithm.gamma=", "--set: algorithm.gamma: no value, expected a number in [0, 1]"},
      {"algorithm.gamma=high", "--set: algorithm.gamma: high is not a JSON value, expected a number in [0, 1]"},
      {"algorithm.gamma=nan", "--set: algorithm.gamma: nan is not a JSON value, expected a number in [0, 1]"},
      {"trainer.policy_lr=1e-400", "--set: trainer.policy_lr: 1e-400 cannot be represented, the nearest number is 0.0"},
      {"seed=1e-400", "--set: seed: 1e-400 cannot be represented, the nearest number is 0.0"},
      {"seed=2.00000000000000000001",
       "--set: seed: 2.00000000000000000001 cannot be represented, the nearest number is 2.0"},
      {"env.params.length=1e-999", "--set: env.params.length: 1e-999 cannot be represented, the nearest number is 0.0"},
      {"algorithm.gamma=1 2", "--set: algorithm.gamma: 1 2 is not a JSON value, expected a number in [0, 1]"},
      {"algorithm.gamma=2", "--set: algorithm.gamma: 2 is out of range, expected a number in [0, 1]"},
      {"algoritm.gamma=1", "--set: algoritm.gamma: unknown key, did you mean algorithm.gamma?"},
      {"gamma=1", "--set: gamma: unknown key, did you mean algorithm.gamma?"},
      {"trainer.lr=3e-4", "--set: trainer.lr: unknown key, did you mean trainer.policy_lr and trainer.value_lr?"},
      {"clip_range=0.2", "--set: clip_range: unknown key, did you mean algorithm.surrogate_params.clip?"},
      {"replay={}",
       "--set: replay: is a section, set one of its keys: mode, draw, capacity, max_policy_lag, max_reuse, late, "
       "filter_groups"},
      {"replay.mode=\"fifo\"", "--set: replay.mode: \"fifo\" is unknown, expected one of: consume_once, reuse"},
      {"name=a/b",
       "--set: name: \"a/b\" is not allowed, expected up to 255 bytes without / and control characters, and not . or "
       ".."},
      {"env.params=[]", "--set: env.params: [] is an array, expected an object"},
      {"model.hidden[0]=32", "--set: model.hidden[0]: a list is replaced as a whole: --set 'model.hidden=[...]'"},
      {"model.hidden.0=32", "--set: model.hidden.0: a list is replaced as a whole: --set 'model.hidden=[...]'"},
      {"model.net.encoders.image.layers[0].stride=2",
       "--set: model.net.encoders.image.layers[0].stride: a list is replaced as a whole: --set "
       "'model.net.encoders.image.layers=[...]'"},
      {"model.hidden=64,64",
       "--set: model.hidden: 64,64 is not a JSON value, expected an array of at most 32 integers in [1, 65536]"},
  };
  for (const auto& [assignment, error] : cases) {
    RunConfig config;
    CAPTURE(assignment);
    CHECK(error_of([&, text = assignment] { apply_override(config, text); }) == error);
    CHECK(config == RunConfig{});
  }
}

TEST_CASE("names: no name that another library uses for a setting is a key of troupe") {
  RunConfig config;
  const Fields fields = describe(config);
  size_t names = 0;
  for (const Field& field : fields)
    for (const std::string_view name : field.setting.elsewhere) {
      CAPTURE(name);
      for (const Field& other : fields) CHECK(other.key() != name);
      ++names;
    }
  CHECK(names == 101);
}

TEST_CASE("names: the error about a name from another library suggests the setting, in config files and --set") {
  const std::string minibatches = "the size of a minibatch is trainer.super_batch / trainer.minibatches";
  const auto mean = [](const std::string& path) { return "did you mean " + path + '?'; };
  const std::pair<std::string, std::string> cases[] = {
      {"trainer.batch_size", minibatches},
      {"batch_size", minibatches},
      {"replay.minibatch_size", minibatches},
      {"sgd_minibatch_size", minibatches},
      {"device", mean("trainer.device")},
      {"cuda", mean("trainer.device")},
      {"env.name", mean("env.id")},
      {"reward_funcs", mean("task.verifier")},
      {"partial_rollout", mean("generation.on_new_weights")},
      {"max_assistant_turns", mean("task.turns")},
      {"tools", mean("task.reply")},
      {"env.kwargs", mean("env.params")},
      {"algorithm.name", mean("algorithm.surrogate and algorithm.advantage")},
      {"algo", mean("algorithm.surrogate and algorithm.advantage")},
      {"algorithm.clip_vloss", mean("algorithm.value_clip")},
      {"clip_range_vf", mean("algorithm.value_clip")},
      {"algorithm.clip_coef", mean("algorithm.surrogate_params.clip")},
      {"clip_eps", mean("algorithm.surrogate_params.clip")},
      {"norm_adv", mean("algorithm.normalize_advantages")},
      {"model.log_std_init", mean("model.log_std_start")},
      {"evaluation.interval", mean("evaluation.every_updates")},
      {"eval_freq", mean("evaluation.every_updates")},
      {"n_eval_episodes", mean("evaluation.episodes")},
      {"checkpoint.interval", mean("checkpoint.every_updates")},
      {"save_freq", mean("checkpoint.every_updates")},
      {"policy", mean("model.net.core.kind")},
      {"model.use_lstm", mean("model.net.core.kind")},
      {"model.core", mean("model.net.core")},
      {"core", mean("model.net.core")},
      {"lstm_hidden_size", mean("model.net.core.size")},
      {"lstm_cell_size", mean("model.net.core.size")},
      {"max_seq_len", mean("model.sequence")},
      {"net_arch", mean("model.hidden")},
      {"fcnet_hiddens", mean("model.hidden")},
      {"vf_share_layers", mean("model.shared_trunk")},
      {"model.type", mean("model.kind")},
      {"model.encoders", mean("model.net.encoders")},
      {"model.trunk", mean("model.net.trunk")},
      {"env.n_envs", mean("env.rows")},
      {"num_envs", mean("env.rows")},
      {"num_sgd_iter", mean("trainer.epochs")},
      {"n_epochs", mean("trainer.epochs")},
      {"train_batch_size", mean("trainer.super_batch")},
      {"num_env_runners", mean("workers.count")},
      {"num_workers", mean("workers.count")},
      {"exp_name", mean("name")},
      {"torch_deterministic", mean("deterministic")},
      {"evaluation.deterministic", "there is no such setting: evaluations always take the most likely actions"},
      {"evaluation.seed",
       "there is no such setting: evaluations follow seed; `troupe eval RUN --seed N` evaluates with another one"},
  };
  for (const auto& [path, advice] : cases) {
    CAPTURE(path);
    const std::string error = path + ": unknown key, " + advice;
    RunConfig config;
    CHECK(error_of([&, wrong = path] { apply_override(config, wrong + "=1"); }) == "--set: " + error);
    const size_t dot = path.find('.');
    const std::string text = dot == std::string::npos
                                 ? "{\"" + path + "\": 1}"
                                 : "{\"" + path.substr(0, dot) + "\": {\"" + path.substr(dot + 1) + "\": 1}}";
    CHECK(parse_error(text) == "run.json: " + error);
  }
}

TEST_CASE("names: if model.kind is the name of a network part, the error says where that part is set") {
  const std::string convolutions =
      "expected \"net\", which reads images with convolutions; model.net.encoders describes them";
  const std::pair<std::string, std::string> cases[] = {
      {"lstm", R"(expected "net", with {"core": {"kind": "lstm"}} in model.net)"},
      {"gru", R"(expected "net", with {"core": {"kind": "gru"}} in model.net)"},
      {"cnn", convolutions},
      {"conv", convolutions},
      {"nature", R"(expected "net", with {"encoders": {"*": {"kind": "nature"}}} in model.net)"},
      {"rnn", "expected one of: mlp, net, token_transformer, decoder"},
  };
  for (const auto& [kind, advice] : cases) {
    const std::string error = ": model.kind: \"" + kind + "\" is unknown, " + advice;
    CHECK(parse_error(R"({"model": {"kind": ")" + kind + "\"}}") == "run.json" + error);
    RunConfig config;
    CHECK(error_of([&, given = kind] { apply_override(config, "model.kind=" + given); }) == "--set" + error);
  }
}

TEST_CASE("names: a path into an object with a wrong name gets a suggestion of the right path") {
  const std::pair<std::string, std::string> cases[] = {
      {"env.kwargs.velocities", "env.params.velocities"},
      {"env.parms.velocities", "env.params.velocities"},
      {"core.kind", "model.net.core.kind"},
      {"net.core.kind", "model.net.core.kind"},
      {"model.core.size", "model.net.core.size"},
      {"model.encoders.image.kind", "model.net.encoders.image.kind"},
      {"algorithm.surogate_params.tau", "algorithm.surrogate_params.tau"},
  };
  for (const auto& [wrong, right] : cases) {
    RunConfig config;
    CHECK(error_of([&, path = wrong] { apply_override(config, path + "=1"); }) ==
          "--set: " + wrong + ": unknown key, did you mean " + right + '?');
  }
}

TEST_CASE("names: no hint is about the name of a setting, and the path that it suggests exists") {
  RunConfig config;
  const Fields fields = describe(config);
  for (const Hint& hint : foreign_names()) {
    CAPTURE(hint.name);
    CHECK(find_field(fields, hint.name) == nullptr);
    CHECK(hint.path.empty() != hint.advice.empty());
    const std::string_view changed = hint.name.substr(0, hint.name.find('='));
    if (changed != hint.name) CHECK(find_field(fields, changed) != nullptr);
    if (hint.path.empty()) continue;
    const bool inside = hint.path.starts_with("model.net.") || hint.path.starts_with("algorithm.surrogate_params.") ||
                        hint.path.starts_with("algorithm.rollout_correction.");
    CHECK((inside || find_field(fields, hint.path) != nullptr));
  }
}

TEST_CASE("names: similar spelling does not suggest a setting of another section") {
  RunConfig config;
  const Fields fields = describe(config);
  const auto advice = [&](const std::string& path) {
    return unknown_key(fields, path, foreign_names()).substr(path.size() + std::string(": unknown key, ").size());
  };
  CHECK(advice("replay.epoch") == "replay has: mode, draw, capacity, max_policy_lag, max_reuse, late, filter_groups");
  CHECK(advice("stop.gama") == "stop has: env_steps, updates, seconds, eval_return, after_warmup");
  CHECK(advice("env.xyzzy.size").starts_with("env has: id, params, rows"));
  CHECK(advice("rollout.rows") == "rollout has: length");  // although there are env.rows and evaluation.rows
  CHECK(advice("rows") == "did you mean env.rows or evaluation.rows?");
  CHECK(advice("trainr.epcohs") == "did you mean trainer.epochs?");
}

TEST_CASE("names: for every field a key with a missing letter gets the right suggestion") {
  RunConfig config;
  const Fields fields = describe(config);
  for (const Field& field : fields) {
    if (field.key().size() < 4) continue;
    std::string wrong(field.path);
    wrong.erase(wrong.size() - 2, 1);
    CHECK(unknown_key(fields, wrong) == wrong + ": unknown key, did you mean " + field.path + '?');
  }
}

TEST_CASE("suggest: distance counts insertions, deletions, substitutions and swaps") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("gamma", "gama") == 1);
  CHECK(edit_distance("epcohs", "epochs") == 1);
  CHECK(edit_distance("Acrobot", "acrobot") == 0);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("suggest: nothing is suggested for a word that is similar to no candidate") {
  CHECK(closest("xyzzy", {"gamma", "lambda"}) == "");
  CHECK(closest("", {"a"}) == "");
  CHECK(closest(std::string(1'000'000, 'a'), {"aaaa"}) == "");
}

TEST_CASE("printable: the result is one line of UTF-8, cut between characters") {
  CHECK(printable("a\n\t\x7f") == "a\\x0a\\x09\\x7f");
  CHECK(printable("a\u202eb\u2069\u200f") == "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa9\\xe2\\x80\\x8f");
  CHECK(printable("gr\u00fc\u00df \u2713 \U0001F600") == "gr\u00fc\u00df \u2713 \U0001F600");
  CHECK(printable("\xff\xc3(\xe2\x82\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf") ==
        "\\xff\\xc3(\\xe2\\x82\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80\\xc0\\xaf");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\xc2\\x9b31m");
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("abc", 3) == "abc");
  CHECK(printable("ab\u00fc", 3) == "ab...");
}

TEST_CASE("describe_fields: defaults are JSON and ranges are readable text") {
  const std::vector<SettingInfo> fields = describe_fields();
  const auto at = [&](const std::string& path) {
    return *std::find_if(fields.begin(), fields.end(), [&](const SettingInfo& field) { return field.path == path; });
  };
  CHECK(at("algorithm.gamma").fallback == "0.99");
  CHECK(at("algorithm.gamma").range == "[0, 1]");
  CHECK(at("replay.mode").fallback == "\"consume_once\"");
  CHECK(at("replay.mode").range == "one of: consume_once, reuse");
  CHECK(at("inference.timeout_us").type == "duration");
  CHECK(at("env.params").type == "object");
  CHECK(at("model.hidden").type == "array of integer");
}

TEST_CASE("configs: every config file in configs/ can be read and is valid") {
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("configs")) {
    if (entry.is_directory()) continue;
    if (entry.path().extension() != ".json") continue;
    CAPTURE(entry.path());
    CHECK(error_of([&] { validate(load_config(entry.path().string())); }) == "");
    ++files;
  }
  CHECK(files >= 1);
}
