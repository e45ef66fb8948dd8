#pragma once
// A table as text for people, fitted to a width. Pure functions; any thread.

#include <cstddef>
#include <string>
#include <vector>

namespace troupe {

struct TableColumn {
  std::string title;
  bool right = false;       // aligned to the right
  size_t least = 0;         // columns of the terminal that it keeps when the table is too wide; 0: it is never cut
  int left_out_as = 0;      // which column is left out when cutting is not enough: 1 first; 0 never
  bool told_apart = false;  // cells are cut in the middle, and no further than leaves them different from each other
};

// The columns that such a table takes where nothing is cut.
size_t table_width(const std::vector<TableColumn>& columns, const std::vector<std::vector<std::string>>& rows);

// The title line and one line for each row, which has a cell for each column. No line is wider than `width`; cells that
// are cut have ".." there. Columns without room are left out, the least important ones first, and named in lines below
// the table. Control characters in cells become "?".
std::string text_table(std::vector<TableColumn> columns, std::vector<std::vector<std::string>> rows, size_t width);

}  // namespace troupe
