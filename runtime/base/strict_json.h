#pragma once
// JSON text from outside to a tree, refusing what nlohmann/json lets pass: duplicate keys, deep nesting, zero bytes.
// Pure; any thread. Sources that look inside the tree include nlohmann/json.hpp themselves: it is slow to compile.

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace troupe {

using Json = nlohmann::ordered_json;

inline constexpr int kMaxJsonDepth = 32;

// Whether // and /* */ are taken for comments. Standard JSON has none.
enum class JsonComments { refused, ignored };

// The value `text` holds, its keys in their order, in a time proportional to the text. Throws ConfigError that begins
// with `source`: "SOURCE:3:17: not valid JSON: ..." or "SOURCE: a.b: the key is there twice".
Json parse_strict(std::string_view text, const std::string& source, JsonComments comments = JsonComments::refused);

}  // namespace troupe
