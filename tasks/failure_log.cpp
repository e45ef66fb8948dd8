#include "tasks/failure_log.h"

#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/text_format.h"

namespace troupe {

namespace {

void log_count(uint64_t failures) {
  if (failures == 0) return;
  log_warn("verifier", format_counted(failures, "further failure") + "; the log has at most " +
                           std::to_string(FailureLog::kKindsPerMinute) + " kinds of failure a minute, and " +
                           std::to_string(FailureLog::kMostKinds) + " of a process");
}

}  // namespace

FailureLog& FailureLog::of_process() {
  static FailureLog log;
  return log;
}

bool FailureLog::take(const std::string& kind, Clock::time_point now) {
  const MutexLock lock(mutex_);
  if (kinds_.contains(kind)) return false;
  if (kinds_.size() < kMostKinds && lines_.take(1, now)) {
    kinds_.insert(kind);
    return true;
  }
  if (held_back_++ == 0) held_back_since_ = now;
  return false;
}

void FailureLog::add(const std::string& error, const std::vector<std::string>& traceback, const std::string& place,
                     Clock::time_point now) {
  if (take(place.empty() ? error : place, now)) {
    log_warn("verifier", error + "; " +
                             (place.empty() ? "the same failure is" : "failures of this type at this place are") +
                             " not logged again");
    if (!traceback.empty()) log_block(LogLevel::info, "verifier", traceback);
  }
  uint64_t held_back = 0;
  {
    const MutexLock lock(mutex_);
    if (now - held_back_since_ >= std::chrono::minutes(1)) held_back = std::exchange(held_back_, 0);
  }
  log_count(held_back);
}

void FailureLog::end() {
  uint64_t held_back = 0;
  {
    const MutexLock lock(mutex_);
    held_back = std::exchange(held_back_, 0);
  }
  log_count(held_back);
}

}  // namespace troupe
