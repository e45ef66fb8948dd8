#include "models/networks/strict_object.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "runtime/config/setting_json.h"

namespace troupe {

namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what) { throw ConfigError(path + ": " + what); }

std::string item(const std::string& path, size_t i) { return path + '[' + std::to_string(i) + ']'; }

}  // namespace

StrictObject::StrictObject(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {
  if (!value.is_object()) refuse(path_, kind_given(value) + ", expected an object");
}

std::string StrictObject::path_of(std::string_view key) const { return path_ + '.' + printable(key); }

const Json* StrictObject::find(std::string_view key) {
  if (std::ranges::find(asked_, key) == asked_.end()) asked_.emplace_back(key);
  const auto found = value_->find(std::string(key));
  return found == value_->end() ? nullptr : &*found;
}

bool StrictObject::has(std::string_view key) { return find(key) != nullptr; }

std::vector<std::string> StrictObject::keys() const {
  std::vector<std::string> result;
  for (const auto& [key, value] : value_->items()) result.push_back(key);
  return result;
}

int64_t StrictObject::integer(const ObjectSetting& key) {
  const Setting& setting = key.setting;
  if (const Json* value = find(setting.key))
    return std::get<int64_t>(read_value(setting, *value, path_of(setting.key)));
  if (key.missing == ObjectSetting::Missing::fallback) return Json::parse(key.fallback).get<int64_t>();
  if (missing_.empty()) missing_ = path_of(setting.key) + ": is missing, expected " + expected(setting);
  return static_cast<int64_t>(setting.low);
}

std::vector<int64_t> StrictObject::integers(const ObjectSetting& key) {
  if (const Json* value = find(key.setting.key)) return read_integers(key.setting, *value, path_of(key.setting.key));
  TROUPE_CHECK(key.missing != ObjectSetting::Missing::refused, key.setting.key);
  return key.fallback.empty() ? std::vector<int64_t>() : Json::parse(key.fallback).get<std::vector<int64_t>>();
}

std::string StrictObject::choice(const ObjectSetting& key) {
  const Setting& setting = key.setting;
  if (const Json* value = find(setting.key))
    return std::get<std::string>(read_value(setting, *value, path_of(setting.key)));
  TROUPE_CHECK(key.missing == ObjectSetting::Missing::fallback, setting.key);
  return Json::parse(key.fallback).get<std::string>();
}

StrictObject StrictObject::object(std::string_view key, const std::string& like) {
  static const Json kEmpty = Json::object();
  const Json* value = find(key);
  if (value != nullptr && !value->is_object() && !like.empty())
    refuse(path_of(key), kind_given(*value) + ", expected an object like " + like);
  return {value == nullptr ? kEmpty : *value, path_of(key)};
}

std::vector<StrictObject> StrictObject::objects(const ObjectSetting& key) {
  std::vector<StrictObject> result;
  const Json* value = find(key.setting.key);
  if (value == nullptr) return result;
  const std::string path = path_of(key.setting.key);
  if (!value->is_array()) refuse(path, kind_given(*value) + ", expected an array of objects");
  if (value->size() > kMaxItems)
    refuse(path, std::to_string(value->size()) + " items, expected at most " + std::to_string(kMaxItems));
  for (const Json& each : *value) result.emplace_back(each, item(path, result.size()));
  return result;
}

std::vector<std::string> StrictObject::unknown_keys() const {
  std::vector<std::string> result;
  for (const std::string& key : keys())
    if (std::ranges::find(asked_, key) == asked_.end()) result.push_back(key);
  return result;
}

void StrictObject::finish() const {
  const std::vector<std::string> unknown = unknown_keys();
  const bool wants_kind = std::ranges::find(asked_, "kind") != asked_.end() && !value_->contains("kind");
  if (!unknown.empty() && unknown.front() == "type" && wants_kind)  // the name of "kind" in other libraries
    refuse(path_of("type"), "unknown key, did you mean " + path_of("kind") + '?');
  if (!unknown.empty()) throw ConfigError(unknown_key(path_, unknown.front(), path_, asked_));
  if (!missing_.empty()) throw ConfigError(missing_);
}

}  // namespace troupe
