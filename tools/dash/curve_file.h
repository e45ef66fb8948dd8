#pragma once
// CurveFile: figures from the metrics.jsonl of a run, as points of curves. It reads what the file has grown by, a
// bounded number of bytes at a time, and keeps at most kMostPoints points however long the file is: when there are
// more, each two neighbours become one, with the mean, the smallest and the largest of their values. Points are in the
// order of the records (record_order.h). One thread at a time.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/run_folder/column_of_path.h"
#include "runtime/run_folder/record_order.h"

namespace troupe {

class CurveFile {
 public:
  static constexpr size_t kMostPoints = 4000;

  // Of a run folder; nothing is read yet.
  explicit CurveFile(const std::string& folder);

  // From now on these figures are read too. For one that is new the file is read again from its beginning; one that no
  // record so far has is not kept, so it is to be wanted again before each read().
  void want(std::span<const std::string> figures);
  // Reads at most about `budget` bytes of what is new, and returns how many. A file that was cut or replaced is read
  // again from its beginning. Throws IoError when it cannot be read, and for a line of more than 32 MiB; the points so
  // far stay.
  uint64_t read(const Disk& disk, uint64_t budget);

  uint64_t bytes_read() const { return offset_; }
  uint64_t bytes() const { return size_; }  // of the file, when it was read last
  uint64_t records() const { return records_; }
  uint64_t skipped() const { return skipped_; }  // lines that are no records
  // Another one after each change of the points; a property of the file, whoever reads it.
  std::string version() const;
  bool has(std::string_view figure) const;            // whether the figure is kept
  size_t figures() const { return figures_.size(); }  // that are kept
  size_t bytes_kept() const;                          // in memory
  size_t points() const { return places_.size(); }

  // What a point has of the figure at a path: values of records without the figure do not count, and NaN is a point
  // without any. [points()]
  enum class Value : uint8_t { mean, low, high };
  std::vector<double> column(std::string_view figure, Value value) const;

 private:
  struct Summary {
    double sum = 0, low = 0, high = 0;
    uint64_t count = 0;
  };

  // Forgets the points, to read the file again from its beginning.
  void begin_again();
  void drop_unknown();
  bool is_continued(const ReadFile& file) const;
  void add_line(std::string_view line);
  size_t point_for(const RecordPlace& place);
  void join_neighbours();

  std::string path_;
  std::vector<std::string> figures_;
  ColumnOfPath column_of_;
  std::vector<double> row_;
  std::vector<std::vector<Summary>> columns_;  // [figures][points], or [figures][0] while a figure has no value
  std::vector<RecordPlace> places_;            // of the first record in each point
  RecordPlace newest_;                         // of all records
  uint64_t records_in_point_ = 1, records_in_last_ = 0;
  uint64_t offset_ = 0, size_ = 0, file_ = 0;  // file_: the inode
  int64_t changed_ = 0;                        // last change of the file: nanoseconds since 1970
  std::string before_;                         // the bytes before the offset, which tell whether it is the same file
  uint64_t records_ = 0, skipped_ = 0;
};

}  // namespace troupe
