// The JSON schema accepts what the reader accepts. These tests check values with a small validator of the keywords that
// the schema uses.
#include <algorithm>
#include <cmath>
#include <regex>

#include <nlohmann/json.hpp>

#include "actors/config/config.h"
#include "models/networks/network_layout.h"
#include "runtime/base/errors.h"
#include "runtime/config/fields.h"
#include "tests/actors/config/config_cases.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using nlohmann::json;

bool has_type(const json& value, const json& types) {
  if (types.is_array())
    return std::any_of(types.begin(), types.end(), [&](const json& type) { return has_type(value, type); });
  const std::string type = types;
  if (type == "null") return value.is_null();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "number") return value.is_number();
  REQUIRE(type == "integer");
  return value.is_number() && (value.is_number_integer() || std::trunc(value.get<double>()) == value.get<double>());
}

// long double holds every 64-bit integer exactly; nlohmann/json compares an integer with a float as doubles.
long double number(const json& value) {
  return value.is_number_unsigned() ? static_cast<long double>(value.get<uint64_t>())
                                    : static_cast<long double>(value.get<double>());
}

bool obeys(const json& schema, const json& value);

bool obeys_object(const json& schema, const json& value) {
  for (const auto& [key, member] : value.items()) {
    const bool named = schema.contains("properties") && schema["properties"].contains(key);
    const json others = schema.value("additionalProperties", json(true));
    if (!named && others.is_boolean() && !others.get<bool>()) return false;
    if (named ? !obeys(schema["properties"][key], member) : others.is_object() && !obeys(others, member)) return false;
  }
  const json required = schema.value("required", json::array());
  return std::ranges::all_of(required, [&](const json& key) { return value.contains(key.get<std::string>()); });
}

bool obeys(const json& schema, const json& value) {
  if (!has_type(value, schema["type"])) return false;
  if (value.is_null()) return true;
  if (schema.contains("enum") && std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
    return false;
  if (schema.contains("pattern") &&
      !std::regex_search(value.get<std::string>(), std::regex(schema["pattern"].get<std::string>())))
    return false;
  if (schema.contains("minimum") && number(value) < number(schema["minimum"])) return false;
  if (schema.contains("maximum") && number(value) > number(schema["maximum"])) return false;
  if (schema.contains("exclusiveMinimum") && number(value) <= number(schema["exclusiveMinimum"])) return false;
  if (schema.contains("exclusiveMaximum") && number(value) >= number(schema["exclusiveMaximum"])) return false;
  if (schema.contains("maxItems") && value.size() > schema["maxItems"].get<size_t>()) return false;
  if (value.is_array())
    for (const json& item : value)
      if (!obeys(schema["items"], item)) return false;
  return !value.is_object() || obeys_object(schema, value);
}

}  // namespace

TEST_CASE("schema: it accepts the defaults and describes every field") {
  const json schema = json::parse(json_schema());
  CHECK(obeys(schema, json::parse(to_json(RunConfig{}))));
  for (const SettingInfo& field : describe_fields()) {
    std::string pointer = "/properties/" + field.path;
    const size_t dot = pointer.find('.');
    if (dot != std::string::npos) pointer.replace(dot, 1, "/properties/");
    CAPTURE(field.path);
    CHECK(schema.at(json::json_pointer(pointer)).at("description") ==
          field.help + (field.needs.empty() ? "" : "; " + field.needs));
    CHECK(obeys(schema.at(json::json_pointer(pointer)), json::parse(field.fallback)));
  }
}

TEST_CASE("schema: it refuses what the reader refuses, as far as a schema can express it") {
  const json schema = json::parse(json_schema());
  for (const test::BadFile& bad : test::bad_files()) {
    if (bad.schema == test::InSchema::no_json) continue;
    CAPTURE(bad.name);
    CHECK(obeys(schema, json::parse(bad.text)) == (bad.schema == test::InSchema::accepted));
  }
}

TEST_CASE("schema: for model.net it accepts and refuses the same values as the reader") {
  const json schema = json::parse(json_schema()).at("properties").at("model").at("properties").at("net");
  EnvSpec env;
  env.id = "Made-up";
  env.observations = {{"image", DType::u8, {96, 96, 3}}, {"numbers", DType::f32, {4}}, {"task", DType::i32, {}}};
  env.action.bins = {2};
  const auto read = [&](const std::string& net) {
    ModelConfig model;
    model.kind = "net";
    model.net = net;
    try {
      network_layout(model, env);
    } catch (const ConfigError&) {
      return false;
    }
    return true;
  };
  const auto image = [](const std::string& keys) { return R"({"encoders": {"image": {)" + keys + "}}}"; };
  const auto layer = [&](const std::string& keys) { return image(R"("layers": [{"kernel": 3, )" + keys + "}]"); };
  const auto task = [](const std::string& keys) {
    return R"({"encoders": {"task": {"kind": "embedding", )" + keys + "}}}";
  };
  const std::pair<std::string, bool> cases[] = {
      {"{}", true},
      {R"({"encoders": {"*": {"hidden": []}}, "trunk": [], "value_trunk": [65536], "core": {"kind": "gru", "size": 1}})",
       true},
      {R"({"trunks": [3]})", false},
      {R"({"trunk": [0]})", false},
      {R"({"trunk": [65537]})", false},
      {R"({"value_trunk": 3})", false},
      {R"({"core": {"kind": "rnn"}})", false},
      {R"({"core": {"kind": "gru", "size": 0}})", false},
      {R"({"core": {"kind": "gru", "sise": 3}})", false},
      {R"({"encoders": 3})", false},
      {image(R"("kind": "nature", "order": "hwc")"), true},
      {image(R"("kind": "resnet")"), false},
      {image(R"("order": "whc")"), false},
      {image(R"("hidden": [0])"), false},
      {image(R"("units": [3])"), false},
      {layer(R"("channels": 4, "stride": 1024, "padding": 1024)"), true},
      {layer(R"("channels": 0)"), false},
      {layer(R"("channels": 65537)"), false},
      {layer(R"("channels": 4, "stride": 0)"), false},
      {layer(R"("channels": 4, "stride": 1025)"), false},
      {layer(R"("channels": 4, "padding": -1)"), false},
      {layer(R"("channels": 4, "padding": 1025)"), false},
      {layer(R"("padding": 1)"), false},
      {task(R"("values": 3)"), true},
      {task(R"("values": 0)"), false},
      {task(R"("values": 10000001)"), false},
      {task(R"("values": 3, "size": 65537)"), false},
  };
  for (const auto& [net, accepted] : cases) {
    CAPTURE(net);
    CHECK(read(net) == accepted);
    CHECK(obeys(schema, json::parse(net)) == accepted);
  }
}
