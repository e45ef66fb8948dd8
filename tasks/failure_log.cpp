#include "tasks/failure_log.h"

#include "runtime/base/log.h"

namespace troupe {

FailureLog& FailureLog::of_process() {
  static FailureLog log;
  return log;
}

bool FailureLog::take(const std::string& kind, TokenBucket::Clock::time_point now) {
  constexpr size_t kMostKinds = 100;
  const MutexLock lock(mutex_);
  if (kinds_.size() >= kMostKinds || kinds_.contains(kind) || !lines_.take(1, now)) return false;
  kinds_.insert(kind);
  return true;
}

void FailureLog::add(const std::string& error, const std::vector<std::string>& traceback, const std::string& place) {
  if (!take(place.empty() ? error : place, TokenBucket::Clock::now())) return;
  log_warn("verifier", error + "; " + (place.empty() ? "the same failure is" : "failures at the same place are") +
                           " not logged again");
  if (!traceback.empty()) log_block(LogLevel::info, "verifier", traceback);
}

}  // namespace troupe
