#pragma once
// The size of the terminal that stdout is, or that its reader has; any thread.

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "runtime/stats/console.h"

namespace troupe {

struct TerminalSize {
  size_t columns = 80, rows = 24;
  // Lines that can be redrawn in place: the cursor needs the line below them.
  size_t drawable_rows() const { return rows > 1 ? rows - 1 : 1; }
};

// A size that is unknown keeps its default.
inline TerminalSize terminal_size() {
  TerminalSize result;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return result;
  if (size.ws_col > 0) result.columns = size.ws_col;
  if (size.ws_row > 0) result.rows = size.ws_row;
  return result;
}

// Columns for lines that do not go to a terminal of this process: those of the variable TROUPE_COLUMNS, which a
// program sets that shows them in its own terminal, but at most kLineColumns. Without it, no limit.
inline size_t line_columns() {
  const char* text = std::getenv("TROUPE_COLUMNS");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  size_t columns = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), columns);
  return columns == 0 ? SIZE_MAX : std::min(columns, kLineColumns);
}

}  // namespace troupe
