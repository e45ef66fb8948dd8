#pragma once
// Copies of rows of arrays. Pure functions; any thread.

#include <cstdint>
#include <vector>

#include "runtime/base/array.h"

namespace troupe {

// Returns new arrays with the given rows of each array, followed by `extra` uninitialized rows.
Arrays gather_rows(const Arrays& source, const std::vector<int64_t>& rows, int64_t extra);
// Copies all rows of `source` into the arrays of `target` with the same names, starting at row `at`. They must fit.
void put_rows(Arrays& target, int64_t at, const Arrays& source);

}  // namespace troupe
