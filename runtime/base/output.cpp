#include "runtime/base/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <mutex>
#include <system_error>
#include <utility>

#include "runtime/base/blocked.h"
#include "runtime/base/log.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

using Clock = std::chrono::steady_clock;

// A terminal that is ready accepts this many bytes without blocking.
constexpr size_t kTerminalPiece = 256;

// One for all outputs, because two of them may share a pipe. Never held during a wait.
std::mutex writing;

std::atomic<bool> closing = false;
std::atomic<Clock::time_point> closing_ends;

uint64_t lines_in(std::string_view text) { return static_cast<uint64_t>(std::ranges::count(text, '\n')); }

// Also true if the descriptor is broken: then the write reports why.
bool becomes_ready(int descriptor, std::chrono::milliseconds patience) {
  pollfd out{descriptor, POLLOUT, 0};
  return poll_blocked({&out, 1}, patience);
}

void log_trouble(Output& console) {
  if (const std::string trouble = console.new_trouble(); !trouble.empty())
    log_warn("console", "stdout " + trouble + "; lines that it does not take are dropped");
}

}  // namespace

Output::Output(int descriptor) : descriptor_(descriptor) { follow(); }

Output::~Output() {
  if (unblocking_ >= 0) close(unblocking_);
}

bool Output::write(std::string_view text) { return put(text, /*counted=*/true); }
bool Output::draw(std::string_view text) { return put(text, /*counted=*/false); }

std::string Output::new_trouble() {
  const std::lock_guard lock(writing);
  return std::exchange(trouble_, {});
}

// A descriptor may be redirected to another file at any time.
void Output::follow() {
  struct stat now{};
  if (fstat(descriptor_, &now) != 0 || (now.st_dev == device_ && now.st_ino == inode_)) return;
  device_ = now.st_dev;
  inode_ = now.st_ino;
  rest_.clear();
  reopen(now.st_mode);
}

void Output::reopen(mode_t mode) {
  if (unblocking_ >= 0) close(unblocking_);
  unblocking_ = -1;
  const bool terminal = isatty(descriptor_) != 0;
  largest_piece_ = terminal ? kTerminalPiece : PIPE_BUF;
  if (!terminal && !S_ISFIFO(mode)) return;
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor_);
  unblocking_ = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

Output::Clock::time_point Output::deadline() const {
  if (closing) return closing_ends;
  return Clock::now() + (dropping_ ? std::chrono::milliseconds(0) : kPatience);
}

bool Output::put(std::string_view text, bool counted) {
  std::unique_lock lock(writing);
  follow();
  const Clock::time_point until = deadline();
  for (bool begun = false;;) {
    if (!begun) begun = begin(text, counted);
    if (begun && flush()) {
      dropping_ = false;
      return true;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (error_ == 0 && left.count() > 0) {
      lock.unlock();
      const bool ready = becomes_ready(descriptor_, left);
      lock.lock();
      if (ready) continue;
    }
    if (!begun && counted) dropped_ += lines_in(text);
    if (!std::exchange(dropping_, true))
      trouble_ = error_ == 0 ? "is not read" : "cannot be written: " + std::generic_category().message(error_);
    return begun && error_ == 0;  // the rest is written before the next text
  }
}

// Whether at least a part of `text` was written; the rest is then in rest_.
bool Output::begin(std::string_view text, bool counted) {
  if (!flush()) return false;
  std::string whole(text);
  if (counted && dropped_ > 0)
    whole = '(' + std::to_string(dropped_) + (dropped_ == 1 ? " console line was" : " console lines were") +
            " not shown)\n" + whole;
  const size_t written = write_some(whole);
  if (written == 0 && !whole.empty()) return false;
  if (counted) dropped_ = 0;
  rest_ = whole.substr(written);
  return true;
}

// Whether the text that was begun is written completely.
bool Output::flush() {
  rest_.erase(0, write_some(rest_));
  return rest_.empty();
}

// The number of bytes that were accepted without a wait.
size_t Output::write_some(std::string_view text) {
  error_ = 0;
  size_t written = 0;
  while (written < text.size()) {
    std::string_view piece = text.substr(written);
    if (unblocking_ < 0) {
      if (!becomes_ready(descriptor_, std::chrono::milliseconds(0))) break;
      piece = piece.substr(0, largest_piece_);
    }
    const ssize_t count = ::write(unblocking_ < 0 ? descriptor_ : unblocking_, piece.data(), piece.size());
    if (count > 0) {
      written += static_cast<size_t>(count);
    } else if (count == 0 || errno != EINTR) {
      if (count < 0 && errno != EAGAIN) error_ = errno;
      break;
    }
  }
  return written;
}

// Never destroyed: threads may still write while the process ends.
Output& standard_output() {
  static Output& output = *new Output(STDOUT_FILENO);
  return output;
}

Output& standard_error() {
  static Output& output = *new Output(STDERR_FILENO);
  return output;
}

void print_line(std::string_view line, Output& console) {
  if (!console.write(printable(line, std::string::npos) + '\n')) log_trouble(console);
}

bool draw(std::string_view picture, Output& console) {
  const bool drawn = console.draw(picture);
  if (!drawn) log_trouble(console);
  return drawn;
}

void print_error(std::string_view line) { write_error(printable(line, std::string::npos) + '\n'); }

void write_error(std::string_view text) {
  if (standard_error().write(text)) note_stderr_line();
}

void begin_closing_lines() {
  if (closing) return;
  closing_ends = Clock::now() + Output::kClosingPatience;
  closing = true;
}

void hold_standard_descriptors() {
  // open() returns the lowest free number.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) return;
}

}  // namespace troupe
