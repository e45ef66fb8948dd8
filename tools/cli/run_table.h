#pragma once
// The list of runs as a table. Pure function; any thread.

#include <cstddef>
#include <span>
#include <string>

#include "tools/cli/run_order.h"

namespace troupe {

// A line for each run, at most `width` columns wide. `sort` is what they are sorted by, which has a column; empty for
// nothing. Columns that only some runs use are left out where no run has them.
std::string run_table(std::span<const ListedRun> runs, const std::string& sort, size_t width);

}  // namespace troupe
