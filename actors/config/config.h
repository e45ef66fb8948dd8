#pragma once
// Reading and writing RunConfig as JSON, strictly: unknown keys, duplicate keys, wrong types, out-of-range numbers and
// NaN are refused with the JSON path, the value given and what would be right. A duration is a number in the unit that
// ends its key, like timeout_us. Pure functions; any thread.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/config/run_config.h"
#include "runtime/config/fields.h"
#include "runtime/config/fixed_settings.h"

namespace troupe {

// Every setting of `config`, in file order.
Fields describe(RunConfig& config);
// The same as texts, with the defaults.
std::vector<SettingInfo> describe_fields();

// The value of "format" in configs that this program writes. Configs of format 1 have no such key. In them,
// algorithm.clip_low, clip_high and dual_clip were always numbers, and 0.2, 0.2 and 0 meant unset.
inline constexpr int64_t kConfigFormat = 2;

// Where a config comes from, which tells the format of one without "format".
enum class ConfigSource {
  user,  // the current format
  run,   // a run folder or checkpoint: format 1
};

// The config in `text`, which is JSON; comments are accepted from a user only. Every error begins with `name`, a file
// name. Settings that the text does not have keep their values in `base`. Throws ConfigError.
RunConfig parse_config(const std::string& text, const std::string& name, ConfigSource source = ConfigSource::user,
                       RunConfig base = {});
// The same for YAML (runtime/config/yaml.h).
RunConfig parse_yaml_config(const std::string& text, const std::string& name, RunConfig base = {});
// Whether a path ends in .json, .yaml or .yml.
bool is_config_file_name(std::string_view path);
// The config in a file, which is YAML if its name ends in .yaml or .yml. Throws ConfigError also when the file cannot
// be read.
RunConfig load_config(const std::string& path, ConfigSource source = ConfigSource::user, RunConfig base = {});
// A config that an older program wrote, with the fields added since at their defaults. Throws ConfigError.
std::string upgrade_config(const std::string& text);
// Sets one field from "path=value"; the value is JSON, or a bare word for a string. Throws ConfigError.
void apply_override(RunConfig& config, const std::string& assignment);
// Every field as JSON text, indented, in order; parse_config(to_json(c)) == c.
std::string to_json(const RunConfig& config);
// The same without the sections that a run of its kind does not have.
std::string to_json_of_kind(const RunConfig& config);
// JSON Schema (draft 2020-12) of a config file.
std::string json_schema();

// Settings that say where the files of a run are. The content of those files is compared (made_of.json), or is read
// only when the run begins, so a file may be in another place at a later use of the run: these settings may change at
// a resume, whatever their descriptions say.
std::span<const std::string_view> file_settings();
bool is_file_setting(std::string_view path);

// For the run folder: how to read an older config, and which settings may change at a resume.
SettingsOfRun settings_of_run();

}  // namespace troupe
