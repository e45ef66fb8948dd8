#include "actors/config/config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/config/fields.h"
#include "tests/support/config_error.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

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
  CHECK(config_error_of([] { validate(RunConfig{}); }) == "no error");
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
    CHECK(config_error_of([&] { validate(load_config(entry.path().string())); }) == "no error");
    ++files;
  }
  CHECK(files >= 1);
}
