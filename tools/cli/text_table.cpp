#include "tools/cli/text_table.h"

#include <algorithm>
#include <numeric>

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

size_t total_of(const std::vector<size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), size_t{0}) + kGap * (std::max<size_t>(widths.size(), 1) - 1);
}

// Takes from the widest column that may be cut, until the table fits or none may be cut any more.
void cut_to(size_t width, const std::vector<TableColumn>& columns, std::vector<size_t>& widths) {
  while (total_of(widths) > width) {
    size_t widest = columns.size();
    for (size_t i = 0; i < columns.size(); ++i)
      if (columns[i].least > 0 && widths[i] > columns[i].least &&
          (widest == columns.size() || widths[i] > widths[widest]))
        widest = i;
    if (widest == columns.size()) return;
    --widths[widest];
  }
}

// Leaves out the first column that may be; returns whether there was one.
bool leave_out_one(std::vector<TableColumn>& columns, std::vector<Row>& rows) {
  size_t found = columns.size();
  for (size_t i = 0; i < columns.size(); ++i)
    if (columns[i].left_out_as > 0 && (found == columns.size() || columns[i].left_out_as < columns[found].left_out_as))
      found = i;
  if (found == columns.size()) return false;
  const auto at = static_cast<std::ptrdiff_t>(found);
  columns.erase(columns.begin() + at);
  for (Row& row : rows) row.erase(row.begin() + at);
  return true;
}

std::string cell_of(const std::string& text, size_t width, bool right) {
  constexpr std::string_view kCut = "..";
  const bool cut = display_width(text) > width;
  std::string cell =
      cut && width > kCut.size() ? fitted(text, width - kCut.size()) + std::string(kCut) : fitted(text, width);
  const std::string space(width - std::min(width, display_width(cell)), ' ');
  return right ? space + cell : cell + space;
}

}  // namespace

std::string text_table(std::vector<TableColumn> columns, std::vector<Row> rows, size_t width) {
  std::vector<size_t> widths;
  do {
    widths = natural_widths(columns, rows);
    cut_to(width, columns, widths);
  } while (total_of(widths) > width && leave_out_one(columns, rows));
  Row titles;
  for (const TableColumn& column : columns) titles.push_back(column.title);
  rows.insert(rows.begin(), titles);
  std::string table;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < columns.size(); ++i)
      line += (i == 0 ? "" : std::string(kGap, ' ')) + cell_of(row[i], widths[i], columns[i].right);
    line.erase(line.find_last_not_of(' ') + 1);
    table += fitted(line, width) + '\n';
  }
  return table;
}

}  // namespace troupe
