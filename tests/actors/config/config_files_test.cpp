#include "actors/config/config.h"

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/config/fields.h"
#include "tests/actors/config/config_cases.h"
#include "tests/actors/config/config_errors.h"
#include "tests/support/config_error.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

RunConfig with(const std::vector<std::string>& overrides) {
  RunConfig config;
  for (const std::string& assignment : overrides) apply_override(config, assignment);
  return config;
}

}  // namespace

TEST_CASE("config: comments are allowed in a config file, not in the config.json of a run or in --set") {
  const std::string text = "// fast\n{/* one */ \"seed\": 7, // \"seed\": 8\n \"name\": \"a//b\"}";
  CHECK(parse_error(text).starts_with("run.json: name: \"a//b\" is not allowed"));
  CHECK(parse_config("// fast\n{/* one */ \"seed\": 7 // \"seed\": 8\n}\n// end", "run.json").seed == 7);
  CHECK(config_error_of([] { parse_config("{} // old", "config.json", ConfigSource::run); }) ==
        "config.json:1:4: not valid JSON: JSON has no comments");
  CHECK(config_error_of([] { with({"seed=7 // mine"}); }) ==
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
  CHECK(parse_error(R"({"env": {"params": {"a": [[[[1]]]]}}})") == "no error");
  CHECK(parse_error("{}" + std::string((1 << 20) - 2, ' ')) == "no error");
}

TEST_CASE("config: the error of load_config says why a file cannot be read") {
  CHECK(config_error_of([] { load_config("no/such/run.json"); }) ==
        "no/such/run.json: cannot open: No such file or directory");
  CHECK(config_error_of([] { load_config("tests"); }) == "tests: is a directory, expected a regular file");
  CHECK(config_error_of([] { load_config("/dev/zero"); }) == "/dev/zero: is a device, expected a regular file");
  CHECK(config_error_of([] { load_config("/dev/null"); }) == "/dev/null: is a device, expected a regular file");
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
    CHECK(config_error_of([&] { parse_yaml_config("deterministic: " + word + "\n", "run.yaml"); }) ==
          "run.yaml: deterministic: \"" + word +
              "\" is a string, expected true or false; YAML 1.2 has only true and false");
  CHECK(parse_yaml_config("deterministic: True\n", "run.yaml").deterministic);
  CHECK(config_error_of([] { parse_yaml_config("deterministic: fast\n", "run.yaml"); }) ==
        "run.yaml: deterministic: \"fast\" is a string, expected true or false");
}

TEST_CASE("config: a section of YAML without keys is refused as empty") {
  CHECK(config_error_of([] { parse_yaml_config("algorithm:\n  # gamma: 0.9\nseed: 3\n", "run.yaml"); }) ==
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
    CHECK(config_error_of([&] { apply_override(config, list + item + "=2"); }) ==
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
    CHECK(config_error_of([&, text = assignment] { apply_override(config, text); }) == error);
    CHECK(config == RunConfig{});
  }
}
