#pragma once
// Copies of rows of arrays. Pure functions; any thread.

#include <cstdint>
#include <vector>

#include "runtime/base/array.h"

namespace troupe {

// Rows `rows` of each array, as new arrays, with `extra` more rows of unset memory behind them.
Arrays gather_rows(const Arrays& source, const std::vector<int64_t>& rows, int64_t extra);
// Copies all rows of `source` into the arrays of the same names in `target`, from row `at` on. The rows must fit.
void put_rows(Arrays& target, int64_t at, const Arrays& source);

}  // namespace troupe
