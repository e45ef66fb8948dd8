#include "runtime/stats/history_columns.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>

#include <nlohmann/json.hpp>

namespace troupe {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kMostExact = 9007199254740992;  // 2^53: up to here a double holds every whole number

// Takes each number of `row` into `into` that `is_better` than the one there.
template <class IsBetter>
void take(const FigureRow& row, FigureRow& into, IsBetter is_better) {
  if (into.size() < row.size()) into.resize(row.size(), kNone);
  for (size_t i = 0; i < row.size(); ++i)
    if (std::isnan(into[i]) || is_better(row[i], into[i])) into[i] = row[i];
}

}  // namespace

void FigureRanges::add(const FigureRow& row) {
  take(row, low, std::less<>());
  take(row, high, std::greater<>());
}

void FigureRanges::add(const FigureRanges& ranges) {
  take(ranges.low, low, std::less<>());
  take(ranges.high, high, std::greater<>());
}

std::optional<size_t> HistoryColumns::column_of(const std::string& path) {
  if (const auto found = places_.find(path); found != places_.end()) return found->second;
  if (columns_.size() >= kMostColumns) return std::nullopt;
  places_.emplace(path, columns_.size());
  columns_.emplace_back();
  return columns_.size() - 1;
}

void HistoryColumns::collect(const std::string& path, const nlohmann::json& value, FigureRow& row) {
  if (value.is_object()) {
    if (const std::optional<size_t> place = path.empty() ? std::nullopt : column_of(path))
      columns_[*place].numbers = false;
    for (const auto& [key, inner] : value.items())
      if (!key.empty()) collect(path.empty() ? key : path + '.' + key, inner, row);  // no topic names an empty key
    return;
  }
  const std::optional<size_t> place = column_of(path);
  if (!place) return;
  Column& column = columns_[*place];
  if (row.size() <= *place) row.resize(*place + 1, kNone);
  // Two keys may have the same dotted path: "a.b", and "b" within "a".
  const bool again = !std::isnan(row[*place]);
  if (value.is_number()) {
    row[*place] = value.get<double>();
    if (!value.is_number_integer()) column.whole = false;
    if (std::abs(row[*place]) > kMostExact && value.is_number_integer()) column.numbers = false;
  }
  if (again || (!value.is_number() && !value.is_null())) column.numbers = false;
}

FigureRow HistoryColumns::row_of(const nlohmann::json& snapshot) {
  FigureRow row;
  row.reserve(columns_.size());
  collect("", snapshot, row);
  return row;
}

std::optional<size_t> HistoryColumns::find(std::string_view path) const {
  const auto found = places_.find(std::string(path));
  if (found == places_.end() || !columns_[found->second].numbers) return std::nullopt;
  return found->second;
}

std::string HistoryColumns::text(const FigureRow& row, size_t column) const {
  const double value = column < row.size() ? row[column] : kNone;
  if (std::isnan(value)) return "null";
  if (columns_[column].whole) return std::to_string(static_cast<int64_t>(value));
  return nlohmann::json(value).dump();
}

}  // namespace troupe
