#pragma once
// The records of runs as a table in CSV (RFC 4180). Memory grows with the number of columns, and with the records that
// are not in order in their files, but not with the other ones. Plain functions; any thread.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/run_folder/run_overview.h"
#include "tools/cli/output_file.h"

namespace troupe {

// A run, and its cells in the columns that come before those of the records.
struct CsvRun {
  std::string folder;
  std::vector<std::string> cells;
};

// A line of column names, then one line for each record of the runs, in their order (record_order.h). `names` are the
// first columns; those of the records follow: every figure that docs/metrics.md lists is a column, named by its path;
// one with entries, like env_failures, has a column for each of them. Figures of other versions follow. A figure
// without a value is an empty cell; numbers are written as the run wrote them. A text that a spreadsheet would take for
// a formula has a single quote before it. What a run adds meanwhile is left out. `sink` gets whole lines. Throws
// IoError, and what `sink` throws.
void metrics_csv(const Disk& disk, const std::vector<std::string>& names, const std::vector<CsvRun>& runs,
                 const TextSink& sink);

// The table of several runs, which begins with the columns "run", "name", "tags", "state" and, as "config.PATH", the
// settings in which they differ.
void runs_csv(const Disk& disk, const std::vector<RunOverview>& runs, const TextSink& sink);

// How such a file is recognized.
OutputKind csv_output();

}  // namespace troupe
