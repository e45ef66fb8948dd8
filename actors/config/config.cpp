#include "actors/config/config.h"

#include <algorithm>
#include <array>
#include <regex>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "actors/config/foreign_names.h"
#include "algorithms/choice/algorithm_choice.h"
#include "models/networks/net_schema.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "runtime/config/effects.h"
#include "runtime/config/setting_json.h"
#include "runtime/config/yaml.h"

namespace troupe {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kShownPath = 200;  // bytes of a file's name in an error

// Replaces the numbers that meant "unset" by null.
void upgrade_from_1(Json& root) {
  const auto algorithm = root.find("algorithm");
  if (algorithm == root.end() || !algorithm->is_object()) return;
  for (const auto& [key, unset] : {std::pair{"clip_low", 0.2}, {"clip_high", 0.2}, {"dual_clip", 0.0}}) {
    const auto value = algorithm->find(key);
    if (value != algorithm->end() && value->is_number() && value->get<double>() == unset) *value = nullptr;
  }
}

// Converts a config to the current format and removes its key "format".
void upgrade(Json& root, const std::string& name, ConfigSource source) {
  constexpr Setting kFormat = {
      .key = "format", .kind = Setting::Kind::integer, .low = 1, .high = static_cast<double>(kConfigFormat)};
  const auto found = root.find("format");
  int64_t format = source == ConfigSource::run ? 1 : kConfigFormat;
  if (found != root.end()) {
    format = std::get<int64_t>(read_value(kFormat, *found, name + ": format"));
    root.erase(found);
  }
  if (format == 1) upgrade_from_1(root);
}

void require_size(const std::string& text, const std::string& name) {
  if (text.size() > kMaxFileBytes) throw ConfigError(name + ": is larger than 1 MiB, expected a config file");
}

// Older programs accepted settings that nobody reads. Such a run is resumed without them.
void forget_unread(RunConfig& config) {
  RunConfig defaults;
  reset_unread(describe(config), describe(defaults));
}

RunConfig config_of(Json root, const std::string& name, ConfigSource source, RunConfig config) {
  if (root.is_object()) upgrade(root, name, source);
  read_fields(describe(config), root, name, foreign_names());
  if (source == ConfigSource::run) {
    use_canonical_spelling(config.algorithm);
    forget_unread(config);
  }
  return config;
}

// Whether some line looks like YAML: "env:" or "seed: 3".
bool looks_like_yaml(const std::string& text) {
  if (text.find_first_of("{[") < text.find(':')) return false;
  static const std::regex key_line("[A-Za-z_]{1,100}:( [^\n]{0,200})?");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.size() < 300 && std::regex_match(line, key_line)) return true;
  return false;
}

Json parse_json(const std::string& text, const std::string& name, JsonComments comments) {
  try {
    return parse_strict(text, name, comments);
  } catch (const ConfigError& refused) {
    if (!looks_like_yaml(text)) throw;
    throw ConfigError(std::string(refused.what()) +
                      "; config files are JSON, or YAML when the name ends in .yaml or .yml");
  }
}

bool is_yaml(std::string_view path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

// Whether runs of this kind read no setting of the section.
bool is_of_other_kind(const Fields& fields, std::string_view section) {
  return std::ranges::all_of(fields, [&](const Field& field) {
    if (field.section() != section) return true;
    const Need* unmet = unmet_need(fields, field);
    return unmet != nullptr && unmet->condition.path == kTokenRuns.path;
  });
}

std::string with_format(const Fields& fields) {
  return "{\n  \"format\": " + std::to_string(kConfigFormat) + ',' + fields_json(fields).substr(1);
}

}  // namespace

RunConfig parse_config(const std::string& text, const std::string& name, ConfigSource source, RunConfig base) {
  require_size(text, name);
  const JsonComments comments = source == ConfigSource::user ? JsonComments::ignored : JsonComments::refused;
  return config_of(parse_json(text, name, comments), name, source, std::move(base));
}

RunConfig parse_yaml_config(const std::string& text, const std::string& name, RunConfig base) {
  require_size(text, name);
  return config_of(parse_yaml(text, name), name, ConfigSource::user, std::move(base));
}

bool is_config_file_name(std::string_view path) { return path.ends_with(".json") || is_yaml(path); }

RunConfig load_config(const std::string& path, ConfigSource source, RunConfig base) {
  const std::string shown_path = printable(path, kShownPath);
  try {
    const std::string text = posix_disk().read(path, kMaxFileBytes);
    if (is_yaml(path)) return parse_yaml_config(text, shown_path, std::move(base));
    return parse_config(text, shown_path, source, std::move(base));
  } catch (const IoError& refused) {
    throw ConfigError(shown_path + std::string(refused.what()).substr(path.size()));  // the text begins with the path
  }
}

std::string upgrade_config(const std::string& text) {
  return to_json(parse_config(text, "its config", ConfigSource::run));
}

void apply_override(RunConfig& config, const std::string& assignment) {
  override_field(describe(config), assignment, foreign_names());
}

std::string to_json(const RunConfig& config) {
  RunConfig copy = config;  // describe() needs members that it may write
  return with_format(describe(copy));
}

std::string to_json_of_kind(const RunConfig& config) {
  RunConfig copy = config;
  Fields fields = describe(copy);
  const Fields all = fields;
  std::erase_if(fields, [&](const Field& field) { return is_of_other_kind(all, field.section()); });
  return with_format(fields);
}

std::string json_schema() {
  RunConfig defaults;
  Json schema = fields_schema(describe(defaults));
  Json& net = schema["properties"]["model"]["properties"]["net"];
  Json keys = net_schema();
  keys.erase("description");
  net.update(keys);
  schema["properties"]["format"] = {{"description", "written by the program: the form of the file"},
                                    {"type", "integer"},
                                    {"minimum", 1},
                                    {"maximum", kConfigFormat}};
  return schema.dump(2) + '\n';
}

std::vector<SettingInfo> describe_fields() {
  RunConfig defaults;
  return infos_of(describe(defaults));
}

std::span<const std::string_view> file_settings() {
  return kWords<"task.params.path", "task.params.held_out_path", "tokenizer.path", "model.path", "model.critic_path",
                "reward_model.path">;
}

bool is_file_setting(std::string_view path) {
  return std::ranges::find(file_settings(), path) != file_settings().end();
}

SettingsOfRun settings_of_run() {
  static RunConfig defaults;
  static const Fields fields = describe(defaults);
  const auto change = [](std::string_view path) {
    return is_file_setting(path) ? Change::at_resume : change_of(fields, path);
  };
  return {change, upgrade_config};
}

}  // namespace troupe
