#pragma once
// JSON text to a tree, refusing what nlohmann/json lets pass: duplicate keys, deep nesting, huge objects. Pure; any thread.
// Sources that look inside the tree include nlohmann/json.hpp themselves: it is slow to compile.

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace troupe {

using Json = nlohmann::ordered_json;

inline constexpr int kMaxJsonDepth = 32;
inline constexpr size_t kMaxJsonKeys = 1000;  // of one object: finding a duplicate is a linear search

// The value `text` holds. Throws ConfigError: "SOURCE:3:17: not valid JSON: ..." or "SOURCE: a.b: the key is there twice".
Json parse_strict(std::string_view text, const std::string& source);

}  // namespace troupe
