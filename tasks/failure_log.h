#pragma once
// FailureLog: which failures of verifiers are logged. A function may fail on every answer, each time with another text
// or another type of exception, so each kind of failure is logged once, and few of them in a minute. Any thread.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/base/token_bucket.h"

namespace troupe {

class FailureLog {
 public:
  using Clock = TokenBucket::Clock;
  static constexpr int kKindsPerMinute = 6;  // and as many at once
  static constexpr size_t kMostKinds = 100;  // in all

  // That of all verifiers in this process.
  static FailureLog& of_process();

  // Logs the error, with the traceback, unless its kind was logged before or too much was. `place` tells kinds apart;
  // without one, the error does. Those that are not logged because of the limits are counted in a line each minute.
  void add(const std::string& error, const std::vector<std::string>& traceback, const std::string& place,
           Clock::time_point now = Clock::now());
  // Logs how many were not logged since the last such line. Call it when a verifier ends.
  void end();
  // Whether a failure of this kind is to be logged now; it counts as logged then.
  bool take(const std::string& kind, Clock::time_point now);

 private:
  Mutex mutex_;
  std::set<std::string> kinds_ TROUPE_GUARDED_BY(mutex_);
  TokenBucket lines_ TROUPE_GUARDED_BY(mutex_){kKindsPerMinute, kKindsPerMinute / 60.0};
  uint64_t held_back_ TROUPE_GUARDED_BY(mutex_) = 0;  // by the limits, and not counted in a line
  Clock::time_point held_back_since_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace troupe
