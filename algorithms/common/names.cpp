#include "algorithms/common/names.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

// Insertions, deletions and replacements that turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::size_t find_name(std::string_view path, std::string_view name, std::span<const std::string_view> known,
                      std::string_view noun) {
  const auto hit = std::find(known.begin(), known.end(), name);
  if (hit != known.end()) return static_cast<std::size_t>(hit - known.begin());
  const auto nearest = std::min_element(known.begin(), known.end(), [&](std::string_view a, std::string_view b) {
    return edit_distance(a, name) < edit_distance(b, name);
  });
  std::string all;
  for (const std::string_view word : known) all += (all.empty() ? "" : ", ") + std::string(word);
  throw ConfigError(std::string(path) + ": unknown " + std::string(noun) + " \"" + std::string(name) +
                    "\", did you mean \"" + std::string(*nearest) + "\"? (known: " + all + ")");
}

}  // namespace troupe
