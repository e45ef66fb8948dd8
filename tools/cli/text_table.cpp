#include "tools/cli/text_table.h"

#include <algorithm>
#include <climits>
#include <functional>
#include <numeric>
#include <set>
#include <span>

#include "runtime/base/text_format.h"

namespace troupe {

namespace {

constexpr size_t kGap = 2;  // between columns

using Row = std::vector<std::string>;

std::vector<size_t> natural_widths(const std::vector<TableColumn>& columns, const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns.size(); ++i) {
    size_t width = display_width(columns[i].title);
    for (const Row& row : rows) width = std::max(width, display_width(row[i]));
    widths.push_back(width);
  }
  return widths;
}

size_t total_of(std::span<const size_t> widths) {
  return std::accumulate(widths.begin(), widths.end(), size_t{0}) + kGap * (std::max<size_t>(widths.size(), 1) - 1);
}

// How many of the cells differ when they are cut to `width`.
size_t different_cells(const std::vector<Row>& rows, size_t column, size_t width) {
  std::set<std::string> cells;
  for (const Row& row : rows) cells.insert(fitted_middle(row[column], width));
  return cells.size();
}

// The width from which on the cells are as different as they are in whole. More width never makes them alike.
size_t width_that_tells_apart(const std::vector<Row>& rows, size_t column, size_t least, size_t natural) {
  const size_t different = different_cells(rows, column, natural);
  while (least < natural) {
    const size_t middle = least + (natural - least) / 2;
    if (different_cells(rows, column, middle) == different)
      natural = middle;
    else
      least = middle + 1;
  }
  return least;
}

// The width that each column keeps, of those it takes in whole. Cells that tell rows apart are whole in two fifths of
// the table, since half a number reads like another one. Where columns that are never left out have no room with
// different cells, the cells may be alike.
std::vector<size_t> least_widths(const std::vector<TableColumn>& columns, const std::vector<Row>& rows,
                                 std::span<const size_t> natural, size_t width) {
  std::vector<size_t> least, apart, always;
  for (size_t i = 0; i < columns.size(); ++i) {
    least.push_back(columns[i].least == 0 ? natural[i] : std::min(columns[i].least, natural[i]));
    const bool whole = natural[i] <= width * 2 / 5;
    apart.push_back(!columns[i].told_apart ? least[i]
                    : whole                ? natural[i]
                                           : width_that_tells_apart(rows, i, least[i], natural[i]));
    if (columns[i].left_out_as == 0) always.push_back(apart[i]);
  }
  return total_of(always) > width ? least : apart;
}

// Takes from the widest column that may be cut, until the table fits or none may be cut any more.
void cut_to(size_t width, std::span<const size_t> least, std::vector<size_t>& widths) {
  while (total_of(widths) > width) {
    size_t widest = widths.size();
    for (size_t i = 0; i < widths.size(); ++i)
      if (widths[i] > least[i] && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
    if (widest == widths.size()) return;
    --widths[widest];
  }
}

// The columns for which there is room, in their order: those that are never left out, then the others, the most
// important first.
std::vector<size_t> columns_with_room(const std::vector<TableColumn>& columns, std::span<const size_t> least,
                                      size_t width) {
  std::vector<size_t> order(columns.size()), kept;
  std::iota(order.begin(), order.end(), size_t{0});
  const auto importance = [&](size_t i) { return columns[i].left_out_as == 0 ? INT_MAX : columns[i].left_out_as; };
  std::ranges::stable_sort(order, std::greater(), importance);
  size_t taken = 0;
  for (const size_t i : order) {
    const size_t with = taken + (kept.empty() ? 0 : kGap) + least[i];
    if (columns[i].left_out_as > 0 && with > width) continue;
    taken = with;
    kept.push_back(i);
  }
  std::ranges::sort(kept);
  return kept;
}

template <class T>
std::vector<T> chosen(std::vector<T>& from, std::span<const size_t> places) {
  std::vector<T> result;
  for (const size_t i : places) result.push_back(std::move(from[i]));
  return result;
}

std::string cell_of(const std::string& text, size_t width, const TableColumn& column) {
  constexpr std::string_view kCut = "..";
  const bool end = !column.told_apart && display_width(text) > width && width > kCut.size();
  const std::string cell = end ? fitted(text, width - kCut.size()) + std::string(kCut) : fitted_middle(text, width);
  const std::string space(width - std::min(width, display_width(cell)), ' ');
  return column.right ? space + cell : cell + space;
}

// About the columns that are not among the kept ones.
std::string left_out_note(const std::vector<TableColumn>& columns, std::span<const size_t> kept, size_t width) {
  std::string names;
  for (size_t i = 0; i < columns.size(); ++i)
    if (!std::ranges::binary_search(kept, i)) names += (names.empty() ? "" : ", ") + columns[i].title;
  if (names.empty()) return "";
  std::string note;
  for (const std::string& line : wrapped("no room for: " + names + " (a wider terminal or a pipe has them)", width))
    note += line + '\n';
  return note;
}

}  // namespace

size_t table_width(const std::vector<TableColumn>& columns, const std::vector<Row>& rows) {
  return total_of(natural_widths(columns, rows));
}

std::string text_table(std::vector<TableColumn> columns, std::vector<Row> rows, size_t width) {
  const std::vector<size_t> natural = natural_widths(columns, rows);
  std::vector<size_t> least = natural, kept(columns.size());
  std::iota(kept.begin(), kept.end(), size_t{0});
  if (total_of(natural) > width) {
    least = least_widths(columns, rows, natural, width);
    kept = columns_with_room(columns, least, width);
  }
  const std::string note = left_out_note(columns, kept, width);
  columns = chosen(columns, kept);
  least = chosen(least, kept);
  for (Row& row : rows) row = chosen(row, kept);
  std::vector<size_t> widths = natural_widths(columns, rows);
  cut_to(width, least, widths);
  Row titles;
  for (const TableColumn& column : columns) titles.push_back(column.title);
  rows.insert(rows.begin(), titles);
  std::string table;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < columns.size(); ++i)
      line += (i == 0 ? "" : std::string(kGap, ' ')) + cell_of(row[i], widths[i], columns[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    table += fitted(line, width) + '\n';
  }
  return table + note;
}

}  // namespace troupe
