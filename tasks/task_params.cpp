#include "tasks/task_params.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "runtime/config/setting_json.h"

namespace troupe {

namespace {

constexpr const char* kPath = "task.params";

}  // namespace

TaskParams::TaskParams(std::span<const Setting> declared, const std::string& json, bool verified)
    : declared_(declared), verified_(verified) {
  for (const Setting& setting : declared) values_.push_back(default_value(setting));
  const Json object = parse_strict(json, kPath);
  if (!object.is_object())
    throw ConfigError(std::string(kPath) + ": " + shown_json(object) + " is not an object, expected {\"key\": value}");
  for (const auto& [key, value] : object.items()) {
    const auto found = std::ranges::find_if(declared, [&](const Setting& setting) { return is_called(setting, key); });
    if (found == declared.end()) throw ConfigError(unknown_key(kPath, key, "this task", declared));
    values_[static_cast<size_t>(found - declared.begin())] =
        read_value(*found, value, std::string(kPath) + '.' + printable(key));
  }
}

const SettingValue& TaskParams::value_of(std::string_view key) const {
  const auto found = std::ranges::find(declared_, key, &Setting::key);
  TROUPE_CHECK(found != declared_.end(), key);
  return values_[static_cast<size_t>(found - declared_.begin())];
}

int64_t TaskParams::integer(std::string_view key) const { return std::get<int64_t>(value_of(key)); }

std::string_view TaskParams::text(std::string_view key) const { return std::get<std::string>(value_of(key)); }

}  // namespace troupe
