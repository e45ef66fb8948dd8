// Settings of a config file as text: the writer, the list of settings for `troupe config` and the JSON schema.

#include <nlohmann/json.hpp>

#include "runtime/base/strict_json.h"
#include "runtime/config/effects.h"
#include "runtime/config/fields.h"
#include "runtime/config/setting_json.h"

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
    std::string operator()(double* value) const { return json_number_text(*value); }
    std::string operator()(std::optional<double>* value) const {
      return value->has_value() ? json_number_text(**value) : "null";
    }
    std::string operator()(std::string* value) const { return json_string(*value); }
    std::string operator()(std::vector<int64_t>* value) const { return Json(*value).dump(); }
    std::string operator()(std::chrono::milliseconds* value) const { return std::to_string(value->count()); }
    std::string operator()(std::chrono::microseconds* value) const { return std::to_string(value->count()); }
    std::string operator()(ObjectText value) const { return *value.text; }
  } write;
  return std::visit(write, field.value);
}

}  // namespace

std::vector<SettingInfo> infos_of(const Fields& fields) {
  std::vector<SettingInfo> infos;
  for (const Field& field : fields) {
    infos.push_back(info_of(field.setting, field.path, json_text(field)));
    infos.back().needs = needs_text(field.needs);
  }
  return infos;
}

std::string fields_json(const Fields& fields) {
  std::string text = "{";
  std::string_view section;
  const char* comma = "";
  for (const Field& field : fields) {
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

Json fields_schema(const Fields& fields) {
  Json properties = Json::object();
  for (const Field& field : fields) {
    Json schema = setting_schema(field.setting, json_text(field));
    const std::string needs = needs_text(field.needs);
    if (!needs.empty()) schema["description"] = help_text(field.setting) + "; " + needs;
    if (field.section().empty()) {
      properties[std::string(field.key())] = schema;
      continue;
    }
    Json& section = properties[std::string(field.section())];
    if (section.is_null())
      section = {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
    section["properties"][std::string(field.key())] = schema;
  }
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "troupe config file"},
          {"type", "object"},
          {"additionalProperties", false},
          {"properties", properties}};
}

}  // namespace troupe
