#include "tools/dash/curve_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "runtime/run_folder/json_scan.h"
#include "runtime/run_folder/run_records.h"

namespace troupe {

namespace {

constexpr uint64_t kBlock = 4 << 20;
constexpr uint64_t kMostLineBytes = 32 << 20;
constexpr size_t kBytesBefore = 256;
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
// The figures that tell the place of a record, and their columns.
using Names = std::vector<std::string>;
const Names kPlace = {"env_steps", "updates"};
constexpr size_t kEnvSteps = 0, kUpdates = 1;

}  // namespace

CurveFile::CurveFile(const std::string& folder)
    : path_(metrics_file(folder)),
      figures_(kPlace),
      column_of_(figures_),
      row_(figures_.size()),
      columns_(figures_.size()) {}

void CurveFile::want(std::span<const std::string> figures) {
  // Of a file without a record nothing is known yet: what was wanted before is not kept.
  Names wanted = column_of_.has_seen_any() ? figures_ : kPlace;
  for (const std::string& figure : figures) {
    const bool may_be_there = !column_of_.has_seen_any() || column_of_.has_seen(figure);
    if (may_be_there && std::ranges::count(wanted, figure) == 0) wanted.push_back(figure);
  }
  if (wanted == figures_) return;
  figures_ = std::move(wanted);
  column_of_.want(figures_);
  begin_again();
}

void CurveFile::begin_again() {
  row_.resize(figures_.size());
  columns_.assign(figures_.size(), {});
  places_.clear();
  newest_ = {};
  records_in_point_ = 1;
  records_in_last_ = 0;
  offset_ = 0;
  before_.clear();
  records_ = skipped_ = 0;
}

// Figures that were wanted before the first record came, and that no record has.
void CurveFile::drop_unknown() {
  size_t kept = 0;
  for (size_t i = 0; i < figures_.size(); ++i) {
    if (i >= kPlace.size() && !column_of_.has_seen(figures_[i])) continue;
    if (kept != i) {
      figures_[kept] = std::move(figures_[i]);
      columns_[kept] = std::move(columns_[i]);
    }
    ++kept;
  }
  if (kept == figures_.size()) return;
  figures_.resize(kept);
  columns_.resize(kept);
  row_.resize(kept);
  column_of_.want(figures_);
}

bool CurveFile::has(std::string_view figure) const { return std::ranges::count(figures_, figure) > 0; }

std::string CurveFile::version() const {
  std::string text;
  for (const uint64_t part : {file_, offset_, static_cast<uint64_t>(changed_), std::hash<std::string>()(before_)})
    text += (text.empty() ? "" : "-") + std::to_string(part);
  return text;
}

size_t CurveFile::bytes_kept() const {
  size_t bytes = places_.size() * sizeof(RecordPlace);
  for (const std::vector<Summary>& column : columns_) bytes += column.size() * sizeof(Summary);
  return bytes;
}

// A run that is resumed cuts off lines and writes them again.
bool CurveFile::is_continued(const ReadFile& file) const {
  return file.size() >= offset_ && file.read(offset_ - before_.size(), before_.size()) == before_;
}

uint64_t CurveFile::read(const Disk& disk, uint64_t budget) {
  struct stat status{};
  const bool known = ::stat(path_.c_str(), &status) == 0;
  const int64_t changed = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  if (known && offset_ == size_ && static_cast<uint64_t>(status.st_size) == size_ && status.st_ino == file_ &&
      changed == changed_)
    return 0;
  const std::unique_ptr<ReadFile> file = disk.open_read(path_);
  if (offset_ > 0 && (status.st_ino != file_ || !is_continued(*file))) {
    column_of_ = ColumnOfPath(figures_);
    begin_again();
  }
  file_ = status.st_ino;
  changed_ = changed;
  size_ = file->size();
  uint64_t read = 0;
  while (read < budget && offset_ < size_) {
    std::string block = file->read(offset_, std::min(kBlock, size_ - offset_));
    size_t end = block.rfind('\n');
    while (end == block.npos && offset_ + block.size() < size_) {
      if (block.size() > kMostLineBytes) throw IoError(path_, "has a line of more than 32 MiB");
      const std::string more = file->read(offset_ + block.size(), std::min(kBlock, size_ - offset_ - block.size()));
      if (more.empty()) return read;
      block += more;
      end = block.rfind('\n');
    }
    if (end == block.npos) break;  // the last line is just being written, or torn
    const std::string_view lines = std::string_view(block).substr(0, end + 1);
    for (size_t begin = 0; begin < lines.size();) {
      const size_t line_end = lines.find('\n', begin);
      add_line(lines.substr(begin, line_end - begin));
      begin = line_end + 1;
    }
    offset_ += lines.size();
    read += lines.size();
    before_ = lines.substr(lines.size() - std::min(lines.size(), kBytesBefore));
  }
  if (read < budget) drop_unknown();  // all records are known
  return read;
}

void CurveFile::add_line(std::string_view line) {
  std::ranges::fill(row_, kMissing);
  column_of_.begin_record();
  const bool whole = scan_json(line, [this](std::string_view path, std::string_view text) {
    const size_t column = column_of_(path);
    if (column != ColumnOfPath::kNotWanted) row_[column] = scalar_number(text).value_or(kMissing);
  });
  if (!whole) {
    ++skipped_;
    return;
  }
  ++records_;
  const size_t at = point_for(record_place(row_[kEnvSteps], row_[kUpdates], newest_));
  for (size_t i = 0; i < row_.size(); ++i) {
    const double value = row_[i];
    if (!std::isfinite(value)) continue;
    if (columns_[i].empty()) columns_[i].resize(places_.size());
    Summary& point = columns_[i][at];
    point.low = point.count == 0 ? value : std::min(point.low, value);
    point.high = point.count == 0 ? value : std::max(point.high, value);
    point.sum += value;
    ++point.count;
  }
}

// The point of a record, a new one where it begins one. A late record is put between the others while each of them has
// a point, and is one more record of a point when points have several.
size_t CurveFile::point_for(const RecordPlace& place) {
  const bool is_late = place < newest_;
  if (!is_late) newest_ = place;
  const auto begins_one = [&] {
    return places_.empty() || (is_late ? records_in_point_ == 1 : records_in_last_ == records_in_point_);
  };
  if (places_.size() == kMostPoints && begins_one()) {
    join_neighbours();
    records_in_last_ = records_in_point_;
  }
  const size_t before = records_before(places_, place);
  const bool begins = begins_one();
  if (begins) {
    const auto at = static_cast<std::ptrdiff_t>(before);
    places_.insert(places_.begin() + at, place);
    for (std::vector<Summary>& column : columns_)
      if (!column.empty()) column.insert(column.begin() + at, Summary{});
  }
  if (!is_late) records_in_last_ = begins ? 1 : records_in_last_ + 1;
  return begins || before == 0 ? before : before - 1;
}

void CurveFile::join_neighbours() {
  for (std::vector<Summary>& column : columns_) {
    for (size_t i = 0; i + 1 < column.size(); i += 2) {
      const Summary a = column[i], b = column[i + 1];
      const Summary both{a.sum + b.sum, std::min(a.low, b.low), std::max(a.high, b.high), a.count + b.count};
      column[i / 2] = a.count == 0 ? b : b.count == 0 ? a : both;
    }
    column.resize(column.size() / 2);
  }
  for (size_t i = 0; i + 1 < places_.size(); i += 2) places_[i / 2] = places_[i];
  places_.resize(places_.size() / 2);
  records_in_point_ *= 2;
}

std::vector<double> CurveFile::column(std::string_view figure, Value value) const {
  std::vector<double> result(points(), kMissing);
  const auto found = std::ranges::find(figures_, figure);
  if (found == figures_.end()) return result;
  const std::vector<Summary>& column = columns_[static_cast<size_t>(found - figures_.begin())];
  for (size_t i = 0; i < column.size(); ++i) {
    const Summary& point = column[i];
    if (point.count == 0) continue;
    result[i] = value == Value::low    ? point.low
                : value == Value::high ? point.high
                                       : point.sum / static_cast<double>(point.count);
  }
  return result;
}

}  // namespace troupe
