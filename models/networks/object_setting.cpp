#include "models/networks/object_setting.h"

#include <string>

#include <nlohmann/json.hpp>

#include "runtime/base/strict_json.h"
#include "runtime/config/setting_json.h"

namespace troupe {

Json schema_of(const ObjectSetting& key) {
  const std::string description(key.setting.help);
  if (key.members == nullptr) {
    const bool has_default = key.missing == ObjectSetting::Missing::fallback;
    Json schema = setting_schema(key.setting, has_default ? std::string(key.fallback) : "null");
    if (!has_default) schema.erase("default");
    return schema;
  }
  if (!key.is_array) return schema_of(description, key.members());
  return {{"description", description},
          {"type", "array"},
          {"maxItems", kMaxItems},
          {"items", schema_of("", key.members())}};
}

Json schema_of(std::string_view description, std::span<const ObjectSetting> keys) {
  Json schema = Json::object();
  if (!description.empty()) schema["description"] = description;
  schema["type"] = "object";
  schema["additionalProperties"] = false;
  schema["properties"] = Json::object();
  for (const ObjectSetting& key : keys) {
    schema["properties"][std::string(key.setting.key)] = schema_of(key);
    if (key.missing == ObjectSetting::Missing::refused) schema["required"].push_back(key.setting.key);
  }
  return schema;
}

}  // namespace troupe
