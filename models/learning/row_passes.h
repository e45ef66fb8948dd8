#pragma once
// Passes over many rows in parts of bounded memory.

#include <algorithm>
#include <cstdint>
#include <span>

#include "models/networks/inputs.h"

namespace troupe {

// Rows of one pass outside training: at most 4,096, and 16 MB of inputs.
inline int64_t rows_per_pass(const InputEncoder& encoder) {
  constexpr int64_t kNumbersPerPass = 4 << 20, kRowsPerPass = 4096;
  return std::clamp<int64_t>(kNumbersPerPass / encoder.elements(), 1, kRowsPerPass);
}

// Calls pass(rows) for consecutive parts of at most `size` rows.
template <class Pass>
void for_each_pass(std::span<const int64_t> rows, int64_t size, Pass pass) {
  for (size_t begin = 0; begin < rows.size(); begin += static_cast<size_t>(size))
    pass(rows.subspan(begin, std::min(static_cast<size_t>(size), rows.size() - begin)));
}

}  // namespace troupe
