#pragma once
// Rows of a batch that is padded to [B, T] or ragged with offsets [B + 1]. Internal to algorithms/.

#include <cstdint>
#include <span>
#include <utility>

#include "runtime/errors.h"

namespace troupe {

// Throws InvariantError unless `elements` are rows * steps, or offsets ascend from 0 to `elements` in rows + 1 numbers.
inline void check_rows(int64_t rows, int64_t steps, std::span<const int64_t> offsets, std::size_t elements) {
  const auto n = static_cast<int64_t>(elements);
  if (offsets.empty()) {
    TROUPE_CHECK(rows >= 0 && steps >= 0 && (steps == 0 ? n == 0 : n % steps == 0 && n / steps == rows), "rows", rows,
                 "steps", steps, "elements", n);
    return;
  }
  TROUPE_CHECK(
      rows >= 0 && offsets.size() == static_cast<std::size_t>(rows) + 1 && offsets.front() == 0 && offsets.back() == n,
      "rows", rows, "offsets", offsets.size(), "first", offsets.front(), "last", offsets.back(), "elements", n);
  for (std::size_t i = 1; i < offsets.size(); ++i)
    TROUPE_CHECK(offsets[i - 1] <= offsets[i], "offsets", offsets[i - 1], "before", offsets[i], "at", i);
}

// First element of a row and the one after its last.
inline std::pair<std::size_t, std::size_t> row_range(std::span<const int64_t> offsets, int64_t steps, int64_t row) {
  const auto at = static_cast<std::size_t>(row);
  if (offsets.empty()) return {static_cast<std::size_t>(row * steps), static_cast<std::size_t>((row + 1) * steps)};
  return {static_cast<std::size_t>(offsets[at]), static_cast<std::size_t>(offsets[at + 1])};
}

}  // namespace troupe
