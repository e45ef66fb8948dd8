#include "algorithms/common/names.h"

#include <algorithm>
#include <string>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"

namespace troupe {

std::size_t find_name(std::string_view path, std::string_view name, std::span<const std::string_view> known,
                      std::string_view noun) {
  const auto hit = std::find(known.begin(), known.end(), name);
  if (hit != known.end()) return static_cast<std::size_t>(hit - known.begin());
  const std::string_view start = name.substr(0, 200);  // the cost of the edit distance is quadratic in the length
  const auto nearest = std::min_element(known.begin(), known.end(), [&](std::string_view a, std::string_view b) {
    return edit_distance(a, start) < edit_distance(b, start);
  });
  std::string all;
  for (const std::string_view word : known) all += (all.empty() ? "" : ", ") + std::string(word);
  throw ConfigError(std::string(path) + ": unknown " + std::string(noun) + " \"" + std::string(name) +
                    "\", did you mean \"" + std::string(*nearest) + "\"? (known: " + all + ")");
}

}  // namespace troupe
