#include "tools/cli/metrics_csv.h"

#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/config/fixed_settings.h"
#include "runtime/run_folder/json_scan.h"
#include "runtime/run_folder/record_order.h"
#include "runtime/run_folder/run_records.h"
#include "tools/cli/figure_names.h"
#include "tools/cli/found_runs.h"

namespace troupe {

namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr std::string_view kLineEnd = "\r\n", kRunColumn = "run";

// The paths in the records, in the order in which they come up.
struct SeenPaths {
  std::vector<std::string> order;
  std::unordered_map<std::string, bool> has_value;  // whether one of its values is not null

  void add(std::string_view path, std::string_view text) {
    const auto [entry, is_new] = has_value.try_emplace(std::string(path), false);
    if (is_new) order.emplace_back(path);
    entry->second = entry->second || text != "null";
  }
};

void add_paths(const Disk& disk, const std::string& file, SeenPaths& seen) {
  const OnScalar on_scalar = [&](std::string_view path, std::string_view text) { seen.add(path, text); };
  for_each_line(disk, file, [&](std::string_view line) {
    if (scan_json(line, [](std::string_view, std::string_view) {})) scan_json(line, on_scalar);
  });
}

std::vector<std::string> columns_of(const SeenPaths& seen) {
  std::vector<std::string> columns;
  std::unordered_set<std::string> taken;
  const auto take = [&](const std::string& path) {
    if (taken.insert(path).second) columns.push_back(path);
  };
  for (const std::string& figure : figure_names()) {
    const size_t before = columns.size();
    for (const std::string& path : seen.order)
      if (path.starts_with(figure + '.')) take(path);
    if (columns.size() == before || seen.has_value.contains(figure)) take(figure);
  }
  for (const std::string& path : seen.order)
    if (seen.has_value.at(path)) take(path);
  return columns;
}

void add_cell(const std::string& text, std::string& csv) {
  if (text.find_first_of(",\"\r\n") == text.npos) {
    csv += text;
    return;
  }
  csv += '"';
  for (const char c : text) csv += c == '"' ? std::string("\"\"") : std::string(1, c);
  csv += '"';
}

void add_line(const std::vector<std::string>& cells, std::string& csv) {
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) csv += ',';
    add_cell(cells[i], csv);
  }
  csv += kLineEnd;
}

using ColumnOf = std::unordered_map<std::string, size_t>;

// A line for each record of a run, in the order of records.
void add_records(const Disk& disk, const CsvRun& run, const ColumnOf& column_of, size_t columns, std::string& csv) {
  std::vector<std::string> cells, lines;
  std::vector<RecordPlace> places;
  double env_steps = 0, updates = 0;
  const OnScalar on_scalar = [&](std::string_view path, std::string_view text) {
    if (path == "env_steps") env_steps = scalar_number(text).value_or(kMissing);
    if (path == "updates") updates = scalar_number(text).value_or(kMissing);
    if (const auto found = column_of.find(std::string(path)); found != column_of.end())
      cells[found->second] = scalar_text(text);
  };
  for_each_line(disk, metrics_file(run.folder), [&](std::string_view line) {
    cells = run.cells;
    cells.resize(columns);
    env_steps = updates = kMissing;
    if (!scan_json(line, on_scalar)) return;
    places.push_back(record_place(env_steps, updates, places.empty() ? RecordPlace{} : places.back()));
    add_line(cells, lines.emplace_back());
  });
  for (const size_t i : in_order(places)) csv += lines[i];
}

}  // namespace

std::string metrics_csv(const Disk& disk, const std::vector<std::string>& names, const std::vector<CsvRun>& runs) {
  SeenPaths seen;
  for (const CsvRun& run : runs) add_paths(disk, metrics_file(run.folder), seen);
  const std::vector<std::string> columns = columns_of(seen);
  ColumnOf column_of;
  for (size_t i = 0; i < columns.size(); ++i) column_of.emplace(columns[i], names.size() + i);
  std::vector<std::string> cells = names;
  cells.insert(cells.end(), columns.begin(), columns.end());
  std::string csv;
  add_line(cells, csv);
  for (const CsvRun& run : runs) add_records(disk, run, column_of, cells.size(), csv);
  return csv;
}

std::string runs_csv(const Disk& disk, const std::vector<RunOverview>& runs) {
  std::vector<RunOverview> nameless = runs;  // settings are compared within runs of one name
  for (RunOverview& run : nameless) run.name.clear();
  const std::vector<SettingValues> differs = differences(nameless);
  std::vector<std::string> names = {std::string(kRunColumn)};
  for (const auto& [path, value] : differs.front()) names.push_back("config." + path);
  std::vector<CsvRun> rows;
  for (size_t i = 0; i < runs.size(); ++i) {
    CsvRun row{runs[i].folder, {runs[i].folder}};
    for (const auto& [path, value] : differs[i]) row.cells.push_back(value == kNotSet ? "" : scalar_text(value));
    rows.push_back(std::move(row));
  }
  return metrics_csv(disk, names, rows);
}

OutputKind csv_output() {
  const std::string first = figure_names().front() + ',', runs = std::string(kRunColumn) + ',';
  return {"a CSV file of troupe export",
          [first, runs](std::string_view line) { return line.starts_with(first) || line.starts_with(runs); }};
}

}  // namespace troupe
