#pragma once
// JSON text from outside to a tree, refusing what nlohmann/json lets pass: duplicate keys, deep nesting, zero bytes.
// Pure; any thread. Sources that look inside the tree include nlohmann/json.hpp themselves: it is slow to compile.

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runtime/base/errors.h"

namespace troupe {

using Json = nlohmann::ordered_json;

inline constexpr int kMaxJsonDepth = 32;

// Whether // and /* */ are taken for comments. Standard JSON has none.
enum class JsonComments { refused, ignored };

// A number that would be taken for a whole number which it is not: 1e-400 for 0, 2.00000000000000000001 for 2.
class InexactNumber : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

// The value `text` holds, its keys in their order, in a time proportional to the text. Whole numbers below 2^64 are
// read exactly, also when they are written with a point or an exponent. Throws ConfigError that begins with `source`:
// "SOURCE:3:17: not valid JSON: ..." or "SOURCE: a.b: the key is there twice", InexactNumber for such a number.
Json parse_strict(std::string_view text, const std::string& source, JsonComments comments = JsonComments::refused);

// The same of a file that a program of ours has written, with all numbers as they were. Throws IoError that begins with
// `path`.
Json parse_stored(std::string_view text, const std::string& path);

// The same, for text of which only what fits is used: null if parse_stored() would refuse it.
Json parse_or_null(std::string_view text);

// The number that `text` spells in JSON or YAML, where `value` is the double that is nearest to it. As parse_strict()
// reads it; errors begin with `where`.
Json exact_number(std::string_view text, double value, const std::string& where);

}  // namespace troupe
