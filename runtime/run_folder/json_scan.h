#pragma once
// The scalars of a JSON text, found in one pass without building a document: for files of many long lines of which few
// values are wanted. Pure function; any thread.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

// Calls `on_scalar` with each scalar of a JSON object, in their order: its path (keys, and indices of arrays, with dots
// between them) and its text as it is there, so a string with its quotes. Returns whether the text is one whole object;
// what was reported of another one is to be dropped. Escapes in strings and the digits of numbers are not checked.
using OnScalar = std::function<void(std::string_view path, std::string_view text)>;
bool scan_json(std::string_view json, const OnScalar& on_scalar);

// The number that a scalar is; nothing for any other.
std::optional<double> scalar_number(std::string_view scalar);
// The text that a scalar stands for: that of a string without quotes and escapes, nothing of null, others as they are.
std::string scalar_text(std::string_view scalar);

}  // namespace troupe
