#pragma once
// HistoryColumns: which numbers the snapshots of a history have, and at which place in the row of each. A request for
// the curve of a figure reads one place of every row, and parses nothing. One thread at a time.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace troupe {

// By column; NaN where the snapshot has no number. Columns that came up later are beyond its end.
using FigureRow = std::vector<double>;

// The smallest and the largest number of each column, over several rows.
struct FigureRanges {
  FigureRow low, high;

  void add(const FigureRow& row);
  void add(const FigureRanges& ranges);
};

class HistoryColumns {
 public:
  // The numbers of a snapshot, a JSON object, by their dotted paths. Notes new paths, kMostColumns at most.
  FigureRow row_of(const nlohmann::json& snapshot);
  // The column of a path; nothing if it has no column, or has had other values than numbers and null: then the JSON has
  // to be asked.
  std::optional<size_t> find(std::string_view path) const;
  // The value of a row as JSON text: "null" without a number.
  std::string text(const FigureRow& row, size_t column) const;

  static constexpr size_t kMostColumns = 512;

 private:
  struct Column {
    bool numbers = true;  // and nothing else
    bool whole = true;    // all of them
  };
  void collect(const std::string& path, const nlohmann::json& value, FigureRow& row);
  std::optional<size_t> column_of(const std::string& path);

  std::unordered_map<std::string, size_t> places_;
  std::vector<Column> columns_;
};

}  // namespace troupe
