// What config.h says about a config as text: the writer, the field table and the JSON schema.

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "runtime/base/strict_json.h"
#include "runtime/config/config.h"
#include "runtime/config/fields.h"

namespace troupe {
namespace {

std::string json_string(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A member as JSON text that reads back as the same value.
std::string json_text(const Field& field) {
  struct {
    std::string operator()(bool* value) const { return *value ? "true" : "false"; }
    std::string operator()(int64_t* value) const { return std::to_string(*value); }
    std::string operator()(uint64_t* value) const { return std::to_string(*value); }
    std::string operator()(double* value) const {
      const std::string text = number_text(*value);
      return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
    }
    std::string operator()(std::string* value) const { return json_string(*value); }
    std::string operator()(std::vector<int64_t>* value) const { return Json(*value).dump(); }
    std::string operator()(std::chrono::milliseconds* value) const { return std::to_string(value->count()); }
    std::string operator()(std::chrono::microseconds* value) const { return std::to_string(value->count()); }
    std::string operator()(ObjectText value) const { return *value.text; }
  } write;
  return std::visit(write, field.value);
}

std::string type_text(const Field& field) {
  struct {
    std::string operator()(bool*) const { return "boolean"; }
    std::string operator()(double*) const { return "number"; }
    std::string operator()(std::string*) const { return "string"; }
    std::string operator()(std::vector<int64_t>*) const { return "array of integer"; }
    std::string operator()(std::chrono::milliseconds*) const { return "duration"; }
    std::string operator()(std::chrono::microseconds*) const { return "duration"; }
    std::string operator()(ObjectText) const { return "object"; }
    std::string operator()(void*) const { return "integer"; }
  } type;
  return std::visit(type, field.value);
}

// The bounds of a number; whole ones are written without a fraction.
void add_bounds(const Field& field, Json& schema) {
  const Limits& limits = field.limits;
  if (std::holds_alternative<uint64_t*>(field.value)) {
    schema["minimum"] = 0;
    schema["maximum"] = std::numeric_limits<uint64_t>::max();
  } else if (std::isfinite(limits.low)) {
    schema[limits.open_low ? "exclusiveMinimum" : "minimum"] = Json::parse(number_text(limits.low));
    schema[limits.open_high ? "exclusiveMaximum" : "maximum"] = Json::parse(number_text(limits.high));
  }
}

Json field_schema(const Field& field) {
  const std::string type = type_text(field);
  Json schema = Json::object();
  schema["description"] = field.help;
  schema["default"] = Json::parse(json_text(field));
  schema["type"] = type == "duration" ? "integer" : type == "array of integer" ? "array" : type;
  if (type == "array of integer") {
    schema["maxItems"] = kMaxItems;
    schema["items"] = {{"type", "integer"}};
    add_bounds(field, schema["items"]);
  } else {
    add_bounds(field, schema);
  }
  if (!field.limits.choices.empty()) schema["enum"] = field.limits.choices;
  if (!field.limits.pattern.empty()) schema["pattern"] = field.limits.pattern;
  return schema;
}

}  // namespace

std::vector<FieldInfo> describe_fields() {
  RunConfig defaults;
  std::vector<FieldInfo> infos;
  for (const Field& field : describe(defaults))
    infos.push_back(
        {std::string(field.path), type_text(field), json_text(field), range_text(field), std::string(field.help)});
  return infos;
}

std::string to_json(const RunConfig& config) {
  RunConfig copy = config;
  std::string text = "{";
  std::string_view section;
  const char* comma = "";
  for (const Field& field : describe(copy)) {
    if (field.section() != section) {
      if (!section.empty()) text += "\n  }";
      text.append(text.size() > 1 ? "," : "").append("\n  \"").append(field.section()).append("\": {");
      section = field.section();
      comma = "";
    }
    text.append(comma).append(section.empty() ? "\n  \"" : "\n    \"").append(field.key()).append("\": ");
    text += json_text(field);
    comma = ",";
  }
  return text + (section.empty() ? "" : "\n  }") + "\n}\n";
}

std::string json_schema() {
  RunConfig defaults;
  Json properties = Json::object();
  for (const Field& field : describe(defaults)) {
    if (field.section().empty()) {
      properties[std::string(field.key())] = field_schema(field);
      continue;
    }
    Json& section = properties[std::string(field.section())];
    if (section.is_null())
      section = {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
    section["properties"][std::string(field.key())] = field_schema(field);
  }
  const Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                       {"title", "troupe run file"},
                       {"type", "object"},
                       {"additionalProperties", false},
                       {"properties", properties}};
  return schema.dump(2) + '\n';
}

}  // namespace troupe
