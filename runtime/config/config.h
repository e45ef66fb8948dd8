#pragma once
// Reading and writing RunConfig as JSON, strictly: unknown keys, duplicate keys, wrong types, out-of-range numbers and NaN are
// refused with the JSON path, the value given and what would be right. Pure functions; any thread.

#include <string>
#include <vector>

#include "runtime/config/run_config.h"

namespace troupe {

// One field as `troupe config --help` and the schema show it.
struct FieldInfo {
  std::string path;      // "algorithm.gamma"
  std::string type;      // "integer", "number", "boolean", "string", "array of integer", "duration", "object"
  std::string fallback;  // default, as JSON text
  std::string range;     // "[0, 1]", "one of: gae, vtrace", or empty
  std::string help;      // effect and unit
};

// All fields in their order in the file.
std::vector<FieldInfo> describe_fields();

// The config in `text`; `source` (a file name) begins every error. Throws ConfigError.
RunConfig parse_config(const std::string& text, const std::string& source);
// The config in a file. Throws ConfigError also when the file cannot be read.
RunConfig load_config(const std::string& path);
// A config that an older program wrote, with the fields added since at their defaults. Throws ConfigError.
std::string upgrade_config(const std::string& text);
// Sets one field from "path=value"; the value is JSON, or a bare word for a string. Throws ConfigError.
void apply_override(RunConfig& config, const std::string& assignment);
// Every field as JSON text, indented, in order; parse_config(to_json(c)) == c.
std::string to_json(const RunConfig& config);
// JSON Schema (draft 2020-12) of a run file.
std::string json_schema();

// Durations are JSON numbers in the unit that ends their key: timeout_us, heartbeat_ms.

}  // namespace troupe
