#include "runtime/config/setting_json.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {
namespace {

using Kind = Setting::Kind;

[[noreturn]] void refuse_json(const Setting& setting, const std::string& where, const std::string& what) {
  throw ConfigError(where + ": " + what + ", expected " + expected(setting));
}

SettingValue plain(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  return std::monostate{};
}

// The bounds of a number; whole ones are written without a fraction.
void add_bounds(const Setting& setting, Json& schema) {
  if (setting.kind == Kind::unsigned_integer) {
    schema["minimum"] = 0;
    schema["maximum"] = std::numeric_limits<uint64_t>::max();
    return;
  }
  if (std::isfinite(setting.low))
    schema[setting.open_low ? "exclusiveMinimum" : "minimum"] = Json::parse(number_text(setting.low));
  if (std::isfinite(setting.high))
    schema[setting.open_high ? "exclusiveMaximum" : "maximum"] = Json::parse(number_text(setting.high));
}

}  // namespace

std::string shown_json(const Json& value) {
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string kind_given(const Json& value) {
  if (value.is_null()) return "null is not a value";
  if (value.is_object()) return "an object is given";
  if (value.is_array()) return shown_json(value) + " is an array";
  if (value.is_string()) return shown_json(value) + " is a string";
  if (value.is_boolean()) return shown_json(value) + " is a boolean";
  return shown_json(value) + " is a number";
}

SettingValue read_value(const Setting& setting, const Json& value, const std::string& where) {
  if (value.is_structured()) refuse_json(setting, where, kind_given(value));
  return checked(setting, plain(value), where, shown_json(value));
}

std::vector<int64_t> read_integers(const Setting& setting, const Json& value, const std::string& where) {
  if (!value.is_array()) refuse_json(setting, where, kind_given(value));
  if (value.size() > kMaxItems) refuse_json(setting, where, std::to_string(value.size()) + " items");
  Setting item = setting;
  item.kind = Kind::integer;
  std::vector<int64_t> items;
  for (const Json& each : value)
    items.push_back(std::get<int64_t>(read_value(item, each, where + '[' + std::to_string(items.size()) + ']')));
  return items;
}

std::string read_object(const Setting& setting, const Json& value, const std::string& where) {
  if (!value.is_object()) refuse_json(setting, where, kind_given(value));
  return value.dump();
}

Json setting_schema(const Setting& setting, const std::string& fallback) {
  const std::string type = type_text(setting);
  const std::string json_type = type == "duration" ? "integer" : type == "array of integer" ? "array" : type;
  Json schema = Json::object();
  schema["description"] = help_text(setting);
  schema["default"] = Json::parse(fallback);
  schema["type"] = setting.unset.empty() ? Json(json_type) : Json({json_type, "null"});
  if (setting.kind == Kind::integers) {
    schema["maxItems"] = kMaxItems;
    schema["items"] = {{"type", "integer"}};
    add_bounds(setting, schema["items"]);
  } else {
    add_bounds(setting, schema);
  }
  if (!setting.choices.empty()) schema["enum"] = setting.choices;
  if (!setting.pattern.empty()) schema["pattern"] = setting.pattern;
  return schema;
}

Json object_schema(std::span<const Setting> parameters) {
  Json properties = Json::object();
  for (const Setting& parameter : parameters) {
    const Json schema = setting_schema(parameter, default_text(parameter));
    properties[std::string(parameter.key)] = schema;
    for (const std::string_view alias : parameter.aliases) properties[std::string(alias)] = schema;
  }
  return {{"type", "object"}, {"additionalProperties", false}, {"properties", properties}};
}

}  // namespace troupe
