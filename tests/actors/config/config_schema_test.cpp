// The JSON schema says what the reader does: it is checked here by the few keywords it uses.
#include <algorithm>
#include <cmath>
#include <regex>

#include <nlohmann/json.hpp>

#include "actors/config/config.h"
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
  if (!schema.contains("properties")) return true;
  for (const auto& [key, member] : value.items()) {
    if (!schema["properties"].contains(key)) return schema.value("additionalProperties", true);
    if (!obeys(schema["properties"][key], member)) return false;
  }
  return true;
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

TEST_CASE("schema: it accepts the defaults and knows every field") {
  const json schema = json::parse(json_schema());
  CHECK(obeys(schema, json::parse(to_json(RunConfig{}))));
  for (const SettingInfo& field : describe_fields()) {
    std::string pointer = "/properties/" + field.path;
    const size_t dot = pointer.find('.');
    if (dot != std::string::npos) pointer.replace(dot, 1, "/properties/");
    CAPTURE(field.path);
    CHECK(schema.at(json::json_pointer(pointer)).at("description") == field.help);
    CHECK(obeys(schema.at(json::json_pointer(pointer)), json::parse(field.fallback)));
  }
}

TEST_CASE("schema: it refuses what the reader refuses, as far as a schema can say it") {
  const json schema = json::parse(json_schema());
  for (const test::BadFile& bad : test::bad_files()) {
    if (bad.schema == test::InSchema::no_json) continue;
    CAPTURE(bad.name);
    CHECK(obeys(schema, json::parse(bad.text)) == (bad.schema == test::InSchema::accepted));
  }
}
