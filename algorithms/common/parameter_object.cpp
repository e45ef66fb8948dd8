#include "algorithms/common/parameter_object.h"

#include <cmath>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

using Kind = Parameter::Kind;

// The key and its other names.
std::vector<std::string> names_of(const Parameter& parameter) {
  std::vector<std::string> names = {std::string(parameter.key)};
  std::string_view rest = parameter.alias;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    names.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return names;
}

std::string shown(const Json& value) { return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace)); }

Json json_of(const ParameterValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

}  // namespace

const Parameter& ParameterObject::find(const std::string& path, const std::string& key) const {
  std::vector<std::string> known(also_.begin(), also_.end());
  std::string all;
  for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
  for (const Parameter& parameter : values_.declared()) {
    all += (all.empty() ? "" : ", ") + std::string(parameter.key);
    for (std::string& name : names_of(parameter)) {
      if (name == key) return parameter;
      known.push_back(std::move(name));
    }
  }
  const std::string near = closest(key, known);
  throw ConfigError(path + '.' + printable(key) + ": unknown key, " +
                    (all.empty()    ? owner_ + " has no parameters"
                     : near.empty() ? owner_ + " has: " + all
                                    : "did you mean " + near + '?'));
}

void ParameterObject::set(const std::string& path, const std::string& key, ParameterValue value) {
  const Parameter& parameter = find(path, key);
  if (const auto* whole = std::get_if<int64_t>(&value); whole && parameter.kind == Kind::number)
    value = static_cast<double>(*whole);
  values_.set(path, key, value);
  const auto [it, fresh] = given_.try_emplace(parameter.key, Given{path + '.' + key, value});
  if (!fresh && it->second.value != value)
    throw ConfigError(path + '.' + key + ": " + shown(json_of(value)) + " contradicts " + it->second.where + ' ' +
                      shown(json_of(it->second.value)) + "; leave out one of them");
}

const ParameterObject::Given* ParameterObject::given(std::string_view key) const {
  const auto found = given_.find(key);
  return found == given_.end() ? nullptr : &found->second;
}

void ParameterObject::read(const Json& object, const std::string& path) {
  if (!object.is_object()) throw ConfigError(path + ": " + shown(object) + ", expected an object");
  for (const auto& [key, value] : object.items()) {
    const Parameter& parameter = find(path, key);
    if (value.is_null() && std::isnan(parameter.default_value)) continue;
    if (value.is_boolean())
      set(path, key, value.get<bool>());
    else if (value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
      set(path, key, value.get<int64_t>());
    else if (value.is_number())
      set(path, key, value.get<double>());
    else if (value.is_string())
      set(path, key, value.get<std::string>());
    else
      throw ConfigError(path + '.' + key + ": " + shown(value) + ", expected " + expected(parameter));
  }
}

void ParameterObject::read(const std::string& text, const std::string& path) { read(parse_strict(text, path), path); }

std::string default_text(const Parameter& parameter) {
  if (std::isnan(parameter.default_value)) return "null";
  return json_of(default_value(parameter)).dump();
}

Json object_schema(std::span<const Parameter> parameters) {
  Json properties = Json::object();
  for (const Parameter& parameter : parameters) {
    const bool unset = std::isnan(parameter.default_value);
    const char* type = parameter.kind == Kind::flag      ? "boolean"
                       : parameter.kind == Kind::choice  ? "string"
                       : parameter.kind == Kind::integer ? "integer"
                                                         : "number";
    Json schema = Json::object();
    schema["description"] = parameter.doc;
    schema["type"] = unset ? Json({type, "null"}) : Json(type);
    schema["default"] = Json::parse(default_text(parameter));
    if (std::isfinite(parameter.low)) schema[parameter.open_low ? "exclusiveMinimum" : "minimum"] = parameter.low;
    if (std::isfinite(parameter.high)) schema["maximum"] = parameter.high;
    if (parameter.kind == Kind::choice)
      schema["enum"] = std::vector<std::string>(parameter.choices.begin(), parameter.choices.end());
    for (const std::string& name : names_of(parameter)) properties[name] = schema;
  }
  return {{"type", "object"}, {"additionalProperties", false}, {"properties", properties}};
}

}  // namespace troupe
