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

constexpr Setting integer_in(int64_t low, int64_t high) {
  return {.kind = Setting::Kind::integer, .low = static_cast<double>(low), .high = static_cast<double>(high)};
}

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

int64_t StrictObject::integer(std::string_view key, std::optional<int64_t> fallback, int64_t low, int64_t high) {
  const Setting setting = integer_in(low, high);
  const Json* value = find(key);
  if (value != nullptr) return std::get<int64_t>(read_value(setting, *value, path_of(key)));
  if (fallback) return *fallback;
  if (missing_.empty()) missing_ = path_of(key) + ": is missing, expected " + expected(setting);
  return low;
}

std::vector<int64_t> StrictObject::integers(std::string_view key, std::vector<int64_t> fallback, int64_t low,
                                            int64_t high) {
  Setting setting = integer_in(low, high);
  setting.kind = Setting::Kind::integers;
  const Json* value = find(key);
  return value == nullptr ? fallback : read_integers(setting, *value, path_of(key));
}

std::string StrictObject::choice(std::string_view key, std::string_view fallback,
                                 std::span<const std::string_view> choices) {
  const Setting setting = {.kind = Setting::Kind::text, .choices = choices};
  const Json* value = find(key);
  return value == nullptr ? std::string(fallback) : std::get<std::string>(read_value(setting, *value, path_of(key)));
}

StrictObject StrictObject::object(std::string_view key) {
  static const Json kEmpty = Json::object();
  const Json* value = find(key);
  return {value == nullptr ? kEmpty : *value, path_of(key)};
}

std::vector<StrictObject> StrictObject::objects(std::string_view key) {
  std::vector<StrictObject> result;
  const Json* value = find(key);
  if (value == nullptr) return result;
  const std::string path = path_of(key);
  if (!value->is_array()) refuse(path, kind_given(*value) + ", expected an array of objects");
  if (value->size() > kMaxItems)
    refuse(path, std::to_string(value->size()) + " items, expected at most " + std::to_string(kMaxItems));
  for (const Json& each : *value) result.emplace_back(each, item(path, result.size()));
  return result;
}

void StrictObject::finish() const {
  for (const std::string& key : keys())
    if (std::ranges::find(asked_, key) == asked_.end()) throw ConfigError(unknown_key(path_, key, path_, asked_));
  if (!missing_.empty()) throw ConfigError(missing_);
}

}  // namespace troupe
