#pragma once
// Writing to stderr where a reader that does not read must not hold up the thread.

#include <poll.h>
#include <unistd.h>

#include <string_view>

namespace troupe {

// Writes `text` to stderr in one call, or drops it when stderr is a pipe or terminal that takes nothing now. A pipe with room takes
// up to PIPE_BUF bytes (4096) without a wait. Any thread; without the locks of a stream.
inline void write_if_read(std::string_view text) {
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  if (poll(&out, 1, 0) != 1 || (out.revents & POLLOUT) == 0) return;
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // nobody is left to tell
}

}  // namespace troupe
