#include "text/json_node.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "runtime/config/setting_json.h"

namespace troupe {

void JsonNode::refuse(const std::string& what) const { throw ConfigError(path() + ": " + what); }

void JsonNode::refuse_value(const std::string& expected) const {
  refuse(shown_json(*json_) + " is not supported, expected " + expected);
}

void JsonNode::refuse_key(const std::string& key, const std::string& expected) const {
  if (has(key)) at(key).refuse_value(expected);
  refuse(printable(key) + " is missing, expected " + expected);
}

bool JsonNode::has(const std::string& key) const {
  const auto found = object().find(key);
  return found != json_->end() && !found->is_null();
}

JsonNode JsonNode::at(const std::string& key) const {
  const auto found = object().find(key);
  if (found == json_->end()) refuse("the key \"" + printable(key) + "\" is missing");
  return {*found, file_, path_.empty() ? printable(key) : path_ + '.' + printable(key)};
}

JsonNode JsonNode::at(size_t index) const {
  TROUPE_CHECK(index < array().size(), path(), index);
  return {(*json_)[index], file_, path_ + '[' + std::to_string(index) + ']'};
}

const nlohmann::ordered_json& JsonNode::object() const {
  if (!json_->is_object()) refuse(shown_json(*json_) + " is not supported, expected an object");
  return *json_;
}

const nlohmann::ordered_json& JsonNode::array() const {
  if (!json_->is_array()) refuse(shown_json(*json_) + " is not supported, expected a list");
  return *json_;
}

std::string JsonNode::text() const {
  if (!json_->is_string()) refuse(shown_json(*json_) + " is not supported, expected a string");
  return json_->get<std::string>();
}

int32_t JsonNode::id() const {
  if (!json_->is_number_integer() || *json_ < 0 || *json_ >= std::numeric_limits<int32_t>::max())
    refuse(shown_json(*json_) + " is not an id, expected a whole number in [0, 2147483647)");
  return json_->get<int32_t>();
}

bool JsonNode::flag(const std::string& key, bool absent) const {
  if (!has(key)) return absent;
  const JsonNode value = at(key);
  if (!value.json().is_boolean()) value.refuse_value("true or false");
  return value.json().get<bool>();
}

void JsonNode::require_keys(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : object().items())
    if (std::ranges::find(keys, key) == keys.end()) at(key).refuse("unknown key");
}

void JsonNode::require_flag(const std::string& key, bool value) const {
  if (flag(key, value) != value) at(key).refuse_value(value ? "true" : "false");
}

void JsonNode::require_type(const std::string& type) const {
  if (this->type() != type) at("type").refuse_value(type);
}

}  // namespace troupe
