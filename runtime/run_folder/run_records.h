#pragma once
// The records of a run, which are the lines of its metrics.jsonl, for those who only read it: also while it runs, and
// after it was killed. Lines that are not a whole JSON object (torn, damaged) are left out and counted. Plain
// functions; any thread. They throw IoError when the file is missing or cannot be read.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"

namespace troupe {

// Calls `on_line` with each line of the file, without its line break, in their order. A last line without a line break
// is one too.
void for_each_line(const Disk& disk, const std::string& path, const std::function<void(std::string_view)>& on_line);

std::string metrics_file(const std::string& folder);

// Numbers of all records, in their order (record_order.h): those that a record does not have are NaN.
struct FigureColumns {
  std::vector<std::vector<double>> values;  // [figures][records]
  uint64_t skipped = 0;                     // lines that are no records
};
// `figures` are paths like "lag.p95".
FigureColumns read_figures(const Disk& disk, const std::string& folder, std::span<const std::string> figures);

// The lines of the last record, in the order of records, and of the last evaluation in the file, if it is asked for.
// Empty where the last MiB has no record, or the last 8 MiB no evaluation.
struct LastLines {
  std::string last, evaluated;
};
LastLines read_last_lines(const Disk& disk, const std::string& folder, bool with_evaluation);

// The numbers of one record, by path.
using Record = std::map<std::string, double, std::less<>>;
double figure_at(const Record& record, std::string_view path);  // NaN where the record does not have it
// The same records as numbers.
struct LastRecords {
  Record last, evaluated;
};
LastRecords read_last_records(const Disk& disk, const std::string& folder, bool with_evaluation);

}  // namespace troupe
