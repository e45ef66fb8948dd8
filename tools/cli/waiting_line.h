#pragma once
// WaitingLine: prints a line on stderr if something takes long. Any thread.

#include <chrono>
#include <condition_variable>
#include <string>
#include <thread>

#include "runtime/base/mutex.h"

namespace troupe {

class WaitingLine {
 public:
  static constexpr std::chrono::seconds kLong{5};

  // Prints "troupe: TEXT" once this object has lived for kLong.
  explicit WaitingLine(std::string text);
  ~WaitingLine();
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool over_ TROUPE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace troupe
