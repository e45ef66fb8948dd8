#pragma once
// Reading and writing RunConfig as JSON, strictly: unknown keys, duplicate keys, wrong types, out-of-range numbers and
// NaN are refused with the JSON path, the value given and what would be right. Pure functions; any thread.

#include <string>
#include <string_view>
#include <vector>

#include "actors/config/run_config.h"
#include "runtime/config/fields.h"
#include "runtime/config/fixed_settings.h"

namespace troupe {

// Every setting of `config`, in file order.
Fields describe(RunConfig& config);
// The same in words, with the defaults.
std::vector<SettingInfo> describe_fields();

// What "format" says in the configs that this program writes. In format 1, which does not say its number,
// algorithm.clip_low, clip_high and dual_clip were numbers, and counted as unset at 0.2, 0.2 and 0.
inline constexpr int64_t kConfigFormat = 2;

// Where a config without "format" comes from.
enum class ConfigSource {
  user,  // it is of the current format, unless it has every section of format 1, as only programs write it
  run,   // a run folder or checkpoint: it is of format 1
};

// The config in `text`, which is JSON, with comments if it is a user's; `name` (a file name) begins every error. Throws
// ConfigError.
RunConfig parse_config(const std::string& text, const std::string& name, ConfigSource source = ConfigSource::user);
// The same of YAML (runtime/config/yaml.h).
RunConfig parse_yaml_config(const std::string& text, const std::string& name);
// Whether a path ends like config files: in .json, .yaml or .yml.
bool is_config_file_name(std::string_view path);
// The config in a file, which is YAML if its name says so. Throws ConfigError also when the file cannot be read.
RunConfig load_config(const std::string& path, ConfigSource source = ConfigSource::user);
// A config that an older program wrote, with the fields added since at their defaults. Throws ConfigError.
std::string upgrade_config(const std::string& text);
// Sets one field from "path=value"; the value is JSON, or a bare word for a string. Throws ConfigError.
void apply_override(RunConfig& config, const std::string& assignment);
// Every field as JSON text, indented, in order; parse_config(to_json(c)) == c.
std::string to_json(const RunConfig& config);
// JSON Schema (draft 2020-12) of a config file.
std::string json_schema();

// What a run folder has to know of the settings: how an older config is read, and which settings may change at a
// resume.
SettingsOfRun settings_of_run();

// Durations are JSON numbers in the unit that ends their key: timeout_us, heartbeat_ms.

}  // namespace troupe
