#pragma once
// Converts YAML text to a JSON tree: YAML 1.2 with its core schema (https://yaml.org/spec/1.2.2/#103-core-schema),
// so `yes` and `on` are text and `010` is ten. Pure; any thread.

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace troupe {

// The value of `text`, with its keys in order. Refuses duplicate keys, tags, keys that are not text, several
// documents, numbers that are not finite, nesting deeper than kMaxJsonDepth, and aliases that expand to more than
// 100,000 values. Throws ConfigError that begins with `source`: "SOURCE:3:17: not valid YAML: ..." or "SOURCE:3:1: the
// key a is there twice".
nlohmann::ordered_json parse_yaml(const std::string& text, const std::string& source);

}  // namespace troupe
