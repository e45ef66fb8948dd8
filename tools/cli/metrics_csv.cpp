#include "tools/cli/metrics_csv.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/config/fixed_settings.h"
#include "runtime/run_folder/json_scan.h"
#include "runtime/run_folder/record_order.h"
#include "runtime/run_folder/run_records.h"
#include "tools/cli/figure_names.h"
#include "tools/cli/found_runs.h"

namespace troupe {

namespace {

constexpr std::string_view kLineEnd = "\r\n", kRunColumn = "run";

// Where a record is in its file, and in the order of records.
struct RecordAt {
  uint64_t offset = 0, size = 0;
  RecordPlace place;
};

constexpr RecordPlace kBeforeAll{-std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};

// Reads what it needs of a line, and returns as scan_record() whether the line is a record.
using ReadRecord = std::function<bool(std::string_view line, RecordPlace& place)>;

// Calls `read` with each line that begins before `end`, in the order of the file, and then `on_record` if it is a
// record.
void for_each_record(const Disk& disk, const std::string& file, uint64_t end, const ReadRecord& read,
                     const std::function<void(const RecordAt& at)>& on_record) {
  uint64_t offset = 0;
  RecordPlace place;
  for_each_line(disk, file, [&](std::string_view line) {
    const uint64_t begin = std::exchange(offset, offset + line.size() + 1);
    if (begin < end && read(line, place)) on_record({begin, line.size(), place});
  });
}

// The paths in the records, in the order in which they come up.
struct SeenPaths {
  std::vector<std::string> order;
  std::unordered_map<std::string, bool> has_value;  // whether one of its values is not null

  // A ReadRecord. The paths of a line that is no record do not count.
  bool add(std::string_view line, RecordPlace& place) {
    std::vector<std::pair<std::string, bool>> news;  // what the line has more than the records before it
    const bool whole = scan_record(line, place, [&](std::string_view scalar_path, std::string_view text) {
      std::string path(scalar_path);
      const auto known = has_value.find(path);
      if (known == has_value.end() || (!known->second && text != "null"))
        news.emplace_back(std::move(path), text != "null");
    });
    if (!whole) return false;
    for (const auto& [path, value] : news) {
      const auto [entry, is_new] = has_value.try_emplace(path, value);
      if (is_new) order.push_back(path);
      entry->second = entry->second || value;
    }
    return true;
  }
};

// A file as it is when its paths are read.
struct RecordFile {
  std::string path;
  uint64_t end = 0;            // no line that begins there or later is read
  std::vector<RecordAt> late;  // records that come after one of a later place, in their order
};

RecordFile read_paths(const Disk& disk, const std::string& path, SeenPaths& seen) {
  RecordFile file{path, 0, {}};
  RecordPlace newest = kBeforeAll;
  const ReadRecord read = [&](std::string_view line, RecordPlace& place) { return seen.add(line, place); };
  for_each_record(disk, path, UINT64_MAX, read, [&](const RecordAt& at) {
    file.end = at.offset + 1;
    if (at.place < newest)
      file.late.push_back(at);
    else
      newest = at.place;
  });
  std::ranges::stable_sort(file.late, {}, &RecordAt::place);
  return file;
}

// The cells of a line that are not empty, by their columns.
using LineCells = std::vector<std::pair<size_t, std::string>>;
using ReadCells = std::function<bool(std::string_view line, RecordPlace& place, LineCells& cells)>;

// Calls `on_record` with the cells that `read` has found in each record of the file, in the order of records: a late
// one comes after all of its place that are not late, because these are before it in the file.
void for_each_in_order(const Disk& disk, const RecordFile& file, const ReadCells& read,
                       const std::function<void(LineCells& cells)>& on_record) {
  std::unique_ptr<ReadFile> again;
  size_t next = 0;
  LineCells late_cells, cells;
  const auto late_ones_before = [&](const RecordPlace* place) {
    for (; next < file.late.size() && (place == nullptr || file.late[next].place < *place); ++next) {
      if (!again) again = disk.open_read(file.path);
      RecordPlace unused;
      if (read(again->read(file.late[next].offset, file.late[next].size), unused, late_cells)) on_record(late_cells);
    }
  };
  const ReadRecord read_record = [&](std::string_view line, RecordPlace& place) { return read(line, place, cells); };
  RecordPlace newest = kBeforeAll;
  for_each_record(disk, file.path, file.end, read_record, [&](const RecordAt& at) {
    if (at.place < newest) return;
    newest = at.place;
    late_ones_before(&at.place);
    on_record(cells);
  });
  late_ones_before(nullptr);
}

// The paths that are entries of each figure: "env_failures.CartPole-v1" of "env_failures".
std::unordered_map<std::string, std::vector<std::string>> entries_of(const std::vector<std::string>& figures,
                                                                     const SeenPaths& seen) {
  std::unordered_map<std::string, std::vector<std::string>> entries;
  for (const std::string& figure : figures) entries.try_emplace(figure);
  for (const std::string& path : seen.order)
    for (size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1))
      if (const auto found = entries.find(path.substr(0, dot)); found != entries.end()) found->second.push_back(path);
  return entries;
}

std::vector<std::string> columns_of(const SeenPaths& seen) {
  std::vector<std::string> columns;
  std::unordered_set<std::string> taken;
  const auto take = [&](const std::string& path) {
    if (taken.insert(path).second) columns.push_back(path);
  };
  const std::vector<std::string> figures = figure_names();
  const auto entries = entries_of(figures, seen);
  for (const std::string& figure : figures) {
    const size_t before = columns.size();
    for (const std::string& path : entries.at(figure)) take(path);
    if (columns.size() == before || seen.has_value.contains(figure)) take(figure);
  }
  for (const std::string& path : seen.order)
    if (seen.has_value.at(path)) take(path);
  return columns;
}

// With a single quote where a spreadsheet would take the text for a formula
// (https://owasp.org/www-community/attacks/CSV_Injection), also one that begins with a wide form of the characters.
std::string text_cell(std::string text) {
  constexpr std::string_view kFormula[] = {"=",  "+",      "-",      "@",      "\t",    "\r",
                                           "\n", "\uFF1D", "\uFF0B", "\uFF0D", "\uFF20"};
  const bool formula = std::ranges::any_of(kFormula, [&](std::string_view begin) { return text.starts_with(begin); });
  return formula ? '\'' + std::move(text) : std::move(text);
}

// The cell of a JSON value: only strings are texts.
std::string cell_of(std::string_view json) {
  return json.starts_with('"') ? text_cell(scalar_text(json)) : scalar_text(json);
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

// Of cells in the same column, the last one counts.
void add_line(LineCells& cells, size_t columns, std::string& csv) {
  std::ranges::stable_sort(cells, {}, &LineCells::value_type::first);
  size_t at = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i + 1 < cells.size() && cells[i + 1].first == cells[i].first) continue;
    csv.append(cells[i].first - at, ',');
    at = cells[i].first;
    add_cell(cells[i].second, csv);
  }
  csv.append(columns - 1 - at, ',');
  csv += kLineEnd;
}

LineCells cells_of(const std::vector<std::string>& texts) {
  LineCells cells;
  for (size_t i = 0; i < texts.size(); ++i) cells.emplace_back(i, text_cell(texts[i]));
  return cells;
}

using ColumnOf = std::unordered_map<std::string, size_t>;

// A line for each record of a run, in the order of records. `first` are the cells that all of them begin with.
void write_records(const Disk& disk, const RecordFile& file, const LineCells& first, const ColumnOf& column_of,
                   size_t columns, const TextSink& sink) {
  constexpr size_t kPartBytes = 1 << 20;
  std::string csv;
  const ReadCells read = [&](std::string_view line, RecordPlace& place, LineCells& cells) {
    cells = first;
    return scan_record(line, place, [&](std::string_view path, std::string_view text) {
      if (text == "null") return;
      if (const auto found = column_of.find(std::string(path)); found != column_of.end())
        cells.emplace_back(found->second, cell_of(text));
    });
  };
  for_each_in_order(disk, file, read, [&](LineCells& cells) {
    add_line(cells, columns, csv);
    if (csv.size() < kPartBytes) return;
    sink(csv);
    csv.clear();
  });
  if (!csv.empty()) sink(csv);
}

// "paper,slow".
std::string tags_of(const RunOverview& run) {
  std::string text;
  for (const std::string& tag : run.about.tags) text += (text.empty() ? "" : ",") + tag;
  return text;
}

}  // namespace

void metrics_csv(const Disk& disk, const std::vector<std::string>& names, const std::vector<CsvRun>& runs,
                 const TextSink& sink) {
  SeenPaths seen;
  std::vector<RecordFile> files;
  for (const CsvRun& run : runs) files.push_back(read_paths(disk, metrics_file(run.folder), seen));
  std::vector<std::string> titles = names;
  ColumnOf column_of;
  for (const std::string& column : columns_of(seen)) {
    column_of.emplace(column, titles.size());
    titles.push_back(column);
  }
  std::string csv;
  LineCells cells = cells_of(titles);
  add_line(cells, titles.size(), csv);
  sink(csv);
  for (size_t i = 0; i < runs.size(); ++i) {
    LineCells first;
    for (size_t k = 0; k < runs[i].cells.size(); ++k) first.emplace_back(k, runs[i].cells[k]);
    write_records(disk, files[i], first, column_of, titles.size(), sink);
  }
}

void runs_csv(const Disk& disk, const std::vector<RunOverview>& runs, const TextSink& sink) {
  std::vector<RunOverview> nameless = runs;  // settings are compared within runs of one name
  for (RunOverview& run : nameless) run.name.clear();
  const std::vector<SettingValues> differs = differences(nameless);
  std::vector<std::string> names = {std::string(kRunColumn), "name", "tags", "state"};
  for (const auto& [path, value] : differs.front()) names.push_back("config." + path);
  std::vector<CsvRun> rows;
  for (size_t i = 0; i < runs.size(); ++i) {
    CsvRun row{runs[i].folder,
               {text_cell(runs[i].folder), text_cell(runs[i].about.name), text_cell(tags_of(runs[i])),
                std::string(text_of(runs[i].state))}};
    for (const auto& [path, value] : differs[i]) row.cells.push_back(value == kNotSet ? "" : cell_of(value));
    rows.push_back(std::move(row));
  }
  metrics_csv(disk, names, rows, sink);
}

OutputKind csv_output() {
  const std::string first = figure_names().front() + ',', runs = std::string(kRunColumn) + ',';
  return {"a CSV file of troupe export",
          [first, runs](std::string_view line) { return line.starts_with(first) || line.starts_with(runs); }};
}

}  // namespace troupe
