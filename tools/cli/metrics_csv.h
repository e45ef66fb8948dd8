#pragma once
// The records of a run as a table in CSV (RFC 4180). Plain functions; any thread.

#include <string>

#include "runtime/base/file.h"
#include "tools/cli/output_file.h"

namespace troupe {

// A line of column names, then one line for each record, in the order of metrics.jsonl. Every figure that
// docs/metrics.md lists is a column, named by its path; one with entries, like env_failures, has a column for each of
// them. Figures of other versions follow. A figure without a value is an empty cell; numbers are written as the run
// wrote them. Throws IoError.
std::string metrics_csv(const Disk& disk, const std::string& folder);

// How such a file is recognized.
OutputKind csv_output();

}  // namespace troupe
