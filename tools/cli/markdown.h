#pragma once
// Text for tables of the generated pages. Pure; any thread.

#include <string>
#include <string_view>

namespace troupe {

// Text for a cell of a table.
inline std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

inline std::string code(std::string_view text) { return '`' + cell(text) + '`'; }

}  // namespace troupe
