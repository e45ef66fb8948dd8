#pragma once
// JSON values of settings (runtime/config/setting.h): reading one, and its JSON schema. Pure functions; any thread.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runtime/config/setting.h"

namespace troupe {

// A JSON value for one line of a message, shortened if it is long.
std::string shown_json(const nlohmann::ordered_json& value);
// The first half of a message about a wrong type: `1.5 is a number`, `an object is given`.
std::string kind_given(const nlohmann::ordered_json& value);

// The value of a setting with a single value, checked as by checked(). Throws ConfigError that begins with `where`.
SettingValue read_value(const Setting& setting, const nlohmann::ordered_json& value, const std::string& where);
// The value of a list of integers.
std::vector<int64_t> read_integers(const Setting& setting, const nlohmann::ordered_json& value,
                                   const std::string& where);
// The value of an object, as compact text.
std::string read_object(const Setting& setting, const nlohmann::ordered_json& value, const std::string& where);

// JSON schema of the setting's values; `fallback` is the default as JSON text.
nlohmann::ordered_json setting_schema(const Setting& setting, const std::string& fallback);
// JSON schema of an object that may have only these parameters, under any of their names.
nlohmann::ordered_json object_schema(std::span<const Setting> parameters);

}  // namespace troupe
