#pragma once
// StopLimit: ends a deterministic run that cannot stop. Its one thread delivers all messages, and a signal is obeyed
// when no message is left: never, while its environments hang or fail.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <thread>

#include "actors/experience/grid/environment_calls.h"
#include "runtime/base/mutex.h"
#include "tools/cli/stop_signals.h"

namespace troupe {

class StopLimit {
 public:
  // After a signal, environments may hang or fail for this long: kPatience, or twice their longest call so far where
  // that is more, but not above kMostPatience.
  static constexpr std::chrono::milliseconds kPatience{2000}, kMostPatience{20'000};
  static std::chrono::milliseconds patience();

  // Where it learns what happens. Tests have others.
  struct Sources {
    std::function<bool()> wait;  // as StopSignals::wait()
    std::function<void()> end;   // as StopSignals::end()
    std::function<EnvironmentCalls()> calls = &EnvironmentCalls::now;
    std::function<std::chrono::milliseconds()> patience = &StopLimit::patience;
  };

  // `give_up` has to end the process. It is called on a thread of its own when that of the run has stopped or is inside
  // an environment. If the environment returns meanwhile, the run finishes the handler that called it, and no more:
  // what `give_up` uses must not be used in a handler that calls environments.
  StopLimit(StopSignals& signals, std::function<void()> give_up);
  StopLimit(Sources sources, std::function<void()> give_up);
  // Ends the wait for signals as well.
  ~StopLimit();
  StopLimit(const StopLimit&) = delete;
  StopLimit& operator=(const StopLimit&) = delete;

  // Call it before each message: it does not return if the run is given up.
  void next();
  // The run obeys the signal, so it is not given up any more.
  void stopping();

 private:
  void watch();
  bool stop_run() TROUPE_REQUIRES(mutex_);

  Sources sources_;
  std::function<void()> give_up_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool stopping_ TROUPE_GUARDED_BY(mutex_) = false;
  bool given_up_ TROUPE_GUARDED_BY(mutex_) = false, stopped_ TROUPE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace troupe
