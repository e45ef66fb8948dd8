#pragma once
// The log: one line per event, with time, level and component, to the run's log file; warnings and errors to stderr as
// well. One per process. Every function may be called from any thread and never throws; a line that cannot be
// written is lost. The code that handles an error logs it, once.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/base/file.h"

namespace troupe {

enum class LogLevel : uint8_t { debug = 0, info = 1, warning = 2, error = 3 };

// `component` is the actor or part that logs, such as "trainer" or "worker 3". Control characters in `text` are
// escaped.
void log_debug(std::string_view component, std::string_view text);
void log_info(std::string_view component, std::string_view text);
void log_warn(std::string_view component, std::string_view text);
void log_error(std::string_view component, std::string_view text);
// Lines that belong together, such as a traceback: all of them are written, or all are held back as a repetition.
void log_block(LogLevel level, std::string_view component, std::span<const std::string> lines);

struct LogOptions {
  LogLevel file_level = LogLevel::info;
  LogLevel stderr_level = LogLevel::warning;
  bool to_stderr = true;
};

// Sends lines to `file` (may be null: stderr only) from now on. Until the first call, warnings and errors go to stderr.
void open_log(std::unique_ptr<AppendFile> file, LogOptions options = {});
// Writes the lines that the repeat filter holds back and closes the file. Later lines go to stderr as before
// open_log().
void close_log();
// The number of lines that could not be written to the file since open_log().
uint64_t log_lines_lost();
// Why the file did not take the last line, and still does not: a line about those that are lost is tried first. Empty
// where it takes lines.
std::string log_refusal();

// The number of lines that this process has written to stderr: by the log, and counted by note_stderr_line(). Code that
// redraws a part of the terminal must not overwrite them.
uint64_t stderr_lines();
void note_stderr_line();

// Holds back identical lines: of those within `window` after the first, only the first passes. Lines of a block are one
// text to it. Used by the log; not thread-safe.
class RepeatFilter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RepeatFilter(Clock::duration window = std::chrono::seconds(10)) : window_(window) {}

  // Whether to write `line` now. `repeats` becomes the number held back since the line was last written.
  bool pass(const std::string& line, Clock::time_point now, uint64_t& repeats);
  // Calls `report(line, repeats)` for every line that was held back, and forgets all lines.
  template <class Report>
  void drain(Report report) {
    for (const auto& [line, entry] : lines_)
      if (entry.repeats > 0) report(line, entry.repeats);
    lines_.clear();
  }

 private:
  struct Entry {
    Clock::time_point written;
    uint64_t repeats = 0;
  };
  static constexpr size_t kMaxLines = 1000;  // lines beyond this number always pass

  Clock::duration window_;
  Clock::time_point next_purge_;  // a full map is searched for old lines once per window, not at every line
  std::unordered_map<std::string, Entry> lines_;
};

}  // namespace troupe
