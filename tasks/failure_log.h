#pragma once
// FailureLog: which failures of verifiers are logged. A function may fail on every answer, each time with another text,
// so each kind of failure is logged once, and few of them in a minute. Any thread.

#include <set>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/base/token_bucket.h"

namespace troupe {

class FailureLog {
 public:
  static constexpr int kLinesPerMinute = 6;  // and as many at once

  // That of all verifiers in this process.
  static FailureLog& of_process();

  // Logs the error, with the traceback, unless its kind was logged before or too much was. `place` tells kinds apart;
  // without one, the error does.
  void add(const std::string& error, const std::vector<std::string>& traceback, const std::string& place);
  // Whether a failure of this kind is to be logged now; it counts as logged then.
  bool take(const std::string& kind, TokenBucket::Clock::time_point now);

 private:
  Mutex mutex_;
  std::set<std::string> kinds_ TROUPE_GUARDED_BY(mutex_);
  TokenBucket lines_ TROUPE_GUARDED_BY(mutex_){kLinesPerMinute, kLinesPerMinute / 60.0};
};

}  // namespace troupe
