#pragma once
// Limits lines that other processes can cause at any rate: so many at once, then one per second. A line that is written
// after others were left out says how many. One thread at a time.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/text_format.h"
#include "runtime/base/token_bucket.h"

namespace troupe {

class LimitedLog {
 public:
  using Clock = TokenBucket::Clock;

  explicit LimitedLog(std::string component, int at_once = 20)
      : component_(std::move(component)), bucket_(at_once, 1) {}
  LimitedLog(const LimitedLog&) = delete;
  LimitedLog& operator=(const LimitedLog&) = delete;
  ~LimitedLog() {
    if (left_out_ > 0) last_(component_, "left out after that: " + format_counted(left_out_, "line") + " of this kind");
  }

  // Actors give the time of their own clock.
  void warn(std::string_view text, Clock::time_point now = Clock::now()) { write(log_warn, text, now); }
  void info(std::string_view text, Clock::time_point now = Clock::now()) { write(log_info, text, now); }

 private:
  using Log = void (*)(std::string_view component, std::string_view text);

  void write(Log log, std::string_view text, Clock::time_point now) {
    last_ = log;
    if (!bucket_.take(1, now)) {
      ++left_out_;
      return;
    }
    const std::string more = left_out_ == 0 ? "" : " (left out before it: " + format_counted(left_out_, "line") + ')';
    left_out_ = 0;
    log(component_, std::string(text) + more);
  }

  std::string component_;
  TokenBucket bucket_;
  Log last_ = log_warn;  // of the newest line
  uint64_t left_out_ = 0;
};

}  // namespace troupe
