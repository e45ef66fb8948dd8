#include "runtime/run_folder/run_records.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "runtime/run_folder/column_of_path.h"
#include "runtime/run_folder/json_scan.h"
#include "runtime/run_folder/line_file.h"
#include "runtime/run_folder/record_order.h"

namespace troupe {

namespace {

constexpr uint64_t kReadBytes = 1 << 20;
constexpr uint64_t kMostRecordBytes = 32 << 20;
constexpr uint64_t kSearchedBytes = 8 << 20;  // for an evaluation
constexpr std::string_view kEvaluation = "\"eval\":{";
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// Of a record; empty for another line. `place` as in scan_record().
Record record_of(std::string_view line, RecordPlace& place) {
  Record record;
  const bool whole = scan_record(line, place, [&](std::string_view path, std::string_view text) {
    if (const auto number = scalar_number(text)) record.emplace(path, *number);
  });
  return whole ? record : Record();
}

Record record_of(std::string_view line) {
  RecordPlace place;
  return record_of(line, place);
}

// Puts the values of a column, in the order of the file, into the order of the records.
void reorder(std::vector<double>& column, std::span<const size_t> order) {
  std::vector<double> ordered;
  ordered.reserve(order.size());
  for (const size_t i : order) ordered.push_back(column[i]);
  column = std::move(ordered);
}

// The line with the byte before `end`, and where it begins; an empty one if it is too long for a record. A last line
// without a line break is torn, or just being written.
std::pair<std::string, uint64_t> line_before(const ReadFile& file, uint64_t end) {
  const std::optional<uint64_t> begin = begin_of_line(file, end - 1, kMostRecordBytes);
  if (!begin) return {};
  return {file.read(*begin, end - *begin), *begin};
}

// The line of the last evaluation before `end`, where a line begins.
std::string last_evaluation(const ReadFile& file, uint64_t end) {
  const uint64_t from = end - std::min(end, kSearchedBytes);
  while (const std::optional<uint64_t> found = position_before(file, end, kEvaluation, end - from)) {
    const std::optional<uint64_t> begin = begin_of_line(file, *found, kMostRecordBytes);
    if (!begin) break;
    const std::string rest = file.read(*begin, std::min(end - *begin, kReadBytes));
    std::string line = rest.substr(0, rest.find('\n'));
    if (!record_of(line).empty()) return line;
    end = *begin;
    if (end <= from) break;
  }
  return {};
}

}  // namespace

std::string metrics_file(const std::string& folder) { return folder + "/metrics.jsonl"; }

void for_each_line(const Disk& disk, const std::string& path, const std::function<void(std::string_view)>& on_line) {
  const std::unique_ptr<ReadFile> file = disk.open_read(path);
  std::string begun;
  for (uint64_t offset = 0; offset < file->size();) {
    const std::string block = file->read(offset, kReadBytes);
    if (block.empty()) break;  // the file has become shorter
    offset += block.size();
    size_t begin = 0;
    for (size_t end = block.find('\n'); end != block.npos; end = block.find('\n', begin)) {
      const std::string_view rest = std::string_view(block).substr(begin, end - begin);
      on_line(begun.empty() ? rest : std::string_view(begun.append(rest)));
      begun.clear();
      begin = end + 1;
    }
    begun.append(block, begin);
    if (begun.size() > kMostRecordBytes) throw IoError(path, "has a line of more than 32 MiB");
  }
  if (!begun.empty()) on_line(begun);
}

FigureColumns read_figures(const Disk& disk, const std::string& folder, std::span<const std::string> figures) {
  FigureColumns result;
  result.values.resize(figures.size());
  ColumnOfPath column_of(figures);
  std::vector<double> row(figures.size());
  std::vector<RecordPlace> places;
  RecordPlace place;
  const OnScalar on_scalar = [&](std::string_view path, std::string_view text) {
    const size_t column = column_of(path);
    if (column != ColumnOfPath::kNotWanted) row[column] = scalar_number(text).value_or(kMissing);
  };
  for_each_line(disk, metrics_file(folder), [&](std::string_view line) {
    std::ranges::fill(row, kMissing);
    column_of.begin_record();
    if (!scan_record(line, place, on_scalar)) {
      ++result.skipped;
      return;
    }
    places.push_back(place);
    for (size_t i = 0; i < row.size(); ++i) result.values[i].push_back(row[i]);
  });
  const std::vector<size_t> order = in_order(places);
  for (std::vector<double>& column : result.values) reorder(column, order);
  return result;
}

double figure_at(const Record& record, std::string_view path) {
  const auto found = record.find(path);
  return found == record.end() ? kMissing : found->second;
}

LastLines read_last_lines(const Disk& disk, const std::string& folder, bool with_evaluation) {
  LastLines result;
  const std::unique_ptr<ReadFile> file = disk.open_read(metrics_file(folder));
  const uint64_t from = file->size() - std::min(file->size(), kReadBytes);
  RecordPlace place_of_last;
  bool last_is_known = false;  // records without an evaluation are in order in the file
  uint64_t end = file->size();
  while (end > from && !last_is_known) {
    const auto [line, begin] = line_before(*file, end);
    if (line.empty()) break;
    end = begin;
    RecordPlace place;
    if (record_of(line, place).empty()) continue;
    const bool evaluated = line.find(kEvaluation) != line.npos;
    if (evaluated && with_evaluation && result.evaluated.empty()) result.evaluated = line;
    if (result.last.empty() || place_of_last < place) {
      result.last = line;
      place_of_last = place;
    }
    last_is_known = !evaluated;
  }
  if (with_evaluation && result.evaluated.empty()) result.evaluated = last_evaluation(*file, end);
  return result;
}

LastRecords read_last_records(const Disk& disk, const std::string& folder, bool with_evaluation) {
  const LastLines lines = read_last_lines(disk, folder, with_evaluation);
  return {record_of(lines.last), record_of(lines.evaluated)};
}

}  // namespace troupe
