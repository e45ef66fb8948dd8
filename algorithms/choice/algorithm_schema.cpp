// algorithm_schema(): the names and parameters of the algorithm tables as conditions of a JSON schema.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "algorithms/choice/algorithm_choice.h"
#include "runtime/base/strict_json.h"
#include "runtime/config/setting_json.h"

namespace troupe {

namespace {

// A schema condition: if the section has one of these names, then its parameters are these.
Json condition(const char* key, const char* params, const std::vector<std::string>& names, bool is_default,
               std::span<const Setting> parameters) {
  Json test = {{"properties", {{key, {{"enum", names}}}}}};
  if (!is_default) test["required"] = {key};
  return {{"if", test}, {"then", {{"properties", {{params, object_schema(parameters)}}}}}};
}

}  // namespace

std::string algorithm_schema(const std::string& schema) {
  Json root = Json::parse(schema);
  Json& section = root["properties"]["algorithm"];
  Json& properties = section["properties"];
  Json all_of = Json::array();
  std::vector<std::string> names;
  for (const AdvantageEntry& entry : advantage_table()) {
    std::vector<std::string> own = {std::string(entry.name)};
    for (const std::string_view alias : entry.aliases) own.emplace_back(alias);
    names.insert(names.end(), own.begin(), own.end());
    const auto parameters = entry.run.sequences ? entry.parameters : std::span<const Setting>();
    all_of.push_back(
        condition("advantage", "advantage_params", own, entry.name == AlgorithmConfig().advantage, parameters));
  }
  properties["advantage"].erase("pattern");
  properties["advantage"]["enum"] = names;
  names.clear();
  Json modes = Json::object();
  for (const SurrogateEntry& entry : surrogate_table()) {
    std::vector<std::string> own = {std::string(entry.name)};
    for (const SurrogateAlias& alias : entry.aliases)
      if (!alias.name.empty()) own.emplace_back(alias.name);
    for (const std::string& name : own) modes[name] = object_schema(entry.parameters);
    names.insert(names.end(), own.begin(), own.end());
    all_of.push_back(condition("surrogate", "surrogate_params", own, entry.name == "clip", entry.parameters));
  }
  properties["kl"].erase("pattern");
  properties["kl"]["enum"] = kl_names();
  properties["surrogate"].erase("pattern");
  properties["surrogate"]["enum"] = names;
  properties["clip_config"]["properties"] = modes;
  properties["clip_config"]["additionalProperties"] = false;
  Json correction = object_schema(correction_settings());
  properties["rollout_correction"].update(correction);
  section["allOf"] = all_of;
  return root.dump(2) + '\n';
}

}  // namespace troupe
