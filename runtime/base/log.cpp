#include "runtime/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <sstream>
#include <utility>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/base/output.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"

namespace troupe {

namespace {

constexpr const char* kPattern = "%Y-%m-%d %H:%M:%S.%e %-7l %v";

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::atomic<uint64_t> lines_on_stderr = 0;

// Writes formatted lines to a Disk file. Lines that cannot be written are counted; the first is reported on stderr, and
// the file gets their number before the next line.
class FileSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit FileSink(std::unique_ptr<AppendFile> file) : file_(std::move(file)) {}
  uint64_t lost() const { return lost_; }
  // See log_refusal().
  const std::string& refusal() {
    if (lost_in_a_row_ > 0) append({});
    return refusal_;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (append({line.data(), line.size()})) return;
    ++lost_in_a_row_;
    if (lost_++ == 0) print_error("troupe: log lines are lost: " + refusal_);
  }
  void flush_() override {}

 private:
  // Whether the file has taken them, after a line about those that are lost.
  bool append(std::string_view lines) {
    spdlog::memory_buf_t all;
    if (lost_in_a_row_ > 0) {
      const std::string note = "log: " + format_counted(lost_in_a_row_, "line") + " before this one " +
                               (lost_in_a_row_ == 1 ? "is" : "are") + " lost: " + refusal_;
      formatter_->format(spdlog::details::log_msg("", spdlog::level::warn, note), all);
    }
    all.append(lines.data(), lines.data() + lines.size());
    try {
      file_->append({all.data(), all.size()});
    } catch (const IoError& error) {
      refusal_ = error.what();
      return false;
    }
    lost_in_a_row_ = 0;
    refusal_.clear();
    return true;
  }

  std::unique_ptr<AppendFile> file_;
  uint64_t lost_ = 0, lost_in_a_row_ = 0;
  std::string refusal_;  // of the last line
};

// Writes formatted lines to stderr, as long as it is read.
class ErrorSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    write_error({line.data(), line.size()});
  }
  void flush_() override {}
};

std::string escaped(std::string_view text) { return printable(text, std::string::npos); }

// The process's log.
class Log {
 public:
  Log() { use(nullptr, {}); }

  void use(std::unique_ptr<AppendFile> file, LogOptions options) {
    const MutexLock guard(mutex_);
    write_held_back();
    sinks_.clear();
    file_sink_.reset();
    if (file) {
      file_sink_ = std::make_shared<FileSink>(std::move(file));
      add(file_sink_, options.file_level);
    }
    if (options.to_stderr) add(std::make_shared<ErrorSink>(), options.stderr_level);
  }

  void write(LogLevel level, std::string_view component, std::span<const std::string> lines) {
    std::string key(1, static_cast<char>('0' + static_cast<int>(level)));
    for (const std::string& line : lines)
      key += (key.size() > 1 ? "\n" : "") + escaped(component) + ": " + escaped(line);  // escaped: without line breaks
    const MutexLock guard(mutex_);
    uint64_t repeats = 0;
    if (lines.empty() || !filter_.pass(key, RepeatFilter::Clock::now(), repeats)) return;
    emit_all(key,
             repeats > 0 ? fmt::format(" (and {} since it was written last)", format_counted(repeats, "time")) : "");
  }

  uint64_t lost() {
    const MutexLock guard(mutex_);
    return file_sink_ ? file_sink_->lost() : 0;
  }

  std::string refusal() {
    const MutexLock guard(mutex_);
    return file_sink_ ? file_sink_->refusal() : "";
  }

 private:
  void write_held_back() TROUPE_REQUIRES(mutex_) {
    std::vector<std::pair<std::string, uint64_t>> held;
    filter_.drain([&](const std::string& key, uint64_t repeats) { held.emplace_back(key, repeats); });
    for (const auto& [key, repeats] : held)
      emit_all(key, fmt::format(" (and {} more)", format_counted(repeats, "time")));
  }

  // The level and the lines of a key of the filter, with `note` behind the first line.
  void emit_all(const std::string& key, std::string note) TROUPE_REQUIRES(mutex_) {
    std::istringstream lines(key.substr(1));
    for (std::string line; std::getline(lines, line);)
      emit(static_cast<LogLevel>(key[0] - '0'), line + std::exchange(note, {}));
  }

  void add(spdlog::sink_ptr sink, LogLevel level) TROUPE_REQUIRES(mutex_) {
    sink->set_level(spdlog_level(level));
    sink->set_pattern(kPattern);
    sinks_.push_back(std::move(sink));
  }

  void emit(LogLevel level, const std::string& line) TROUPE_REQUIRES(mutex_) {
    const spdlog::details::log_msg message("", spdlog_level(level), line);
    for (const spdlog::sink_ptr& sink : sinks_)
      if (sink->should_log(message.level)) sink->log(message);
  }

  Mutex mutex_;
  std::vector<spdlog::sink_ptr> sinks_ TROUPE_GUARDED_BY(mutex_);
  std::shared_ptr<FileSink> file_sink_ TROUPE_GUARDED_BY(mutex_);
  RepeatFilter filter_ TROUPE_GUARDED_BY(mutex_);
};

// Never destroyed: threads may still log while the process ends.
Log& the_log() {
  static Log& log = *new Log;
  return log;
}

void write(LogLevel level, std::string_view component, std::span<const std::string> lines) noexcept {
  try {
    the_log().write(level, component, lines);
  } catch (...) {
    // Out of memory, or stderr is closed: the error cannot be reported.
  }
}

void write(LogLevel level, std::string_view component, std::string_view text) noexcept {
  try {
    const std::string line(text);
    write(level, component, std::span(&line, 1));
  } catch (...) {
    // Out of memory: the line is lost.
  }
}

}  // namespace

void log_block(LogLevel level, std::string_view component, std::span<const std::string> lines) {
  write(level, component, lines);
}
void log_debug(std::string_view component, std::string_view text) { write(LogLevel::debug, component, text); }
void log_info(std::string_view component, std::string_view text) { write(LogLevel::info, component, text); }
void log_warn(std::string_view component, std::string_view text) { write(LogLevel::warning, component, text); }
void log_error(std::string_view component, std::string_view text) { write(LogLevel::error, component, text); }

void open_log(std::unique_ptr<AppendFile> file, LogOptions options) { the_log().use(std::move(file), options); }
void close_log() { the_log().use(nullptr, {}); }
uint64_t log_lines_lost() { return the_log().lost(); }
std::string log_refusal() { return the_log().refusal(); }
uint64_t stderr_lines() { return lines_on_stderr; }
void note_stderr_line() { ++lines_on_stderr; }

bool RepeatFilter::pass(const std::string& line, Clock::time_point now, uint64_t& repeats) {
  repeats = 0;
  const auto found = lines_.find(line);
  if (found == lines_.end()) {
    if (lines_.size() >= kMaxLines && now >= next_purge_) {
      std::erase_if(lines_,
                    [&](const auto& item) { return item.second.repeats == 0 && now - item.second.written >= window_; });
      next_purge_ = now + window_;
    }
    if (lines_.size() < kMaxLines) lines_[line] = {now, 0};
    return true;
  }
  Entry& entry = found->second;
  if (now - entry.written < window_) {
    ++entry.repeats;
    return false;
  }
  repeats = std::exchange(entry.repeats, 0);
  entry.written = now;
  return true;
}

}  // namespace troupe
