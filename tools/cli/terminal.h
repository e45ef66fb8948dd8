#pragma once
// The size of the terminal that stdout is; any thread.

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstddef>

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

}  // namespace troupe
