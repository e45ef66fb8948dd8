#pragma once
// AlarmCommand: runs the command of `train --on-alarm` for each alarm that is raised, one at a time, on a thread of its
// own. What it prints goes to the log. A command that fails, or does not end in time, is one warning.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/stats/alarms.h"

namespace troupe {

class AlarmCommand {
 public:
  static constexpr std::chrono::milliseconds kLimit{60'000};
  static constexpr size_t kMostWaiting = 100;  // alarms; the newest of more are left out, with a warning

  // `command` is for the shell. `run` is the folder of the run. After `limit` a command is killed with all that it has
  // started.
  AlarmCommand(std::string command, std::string run, std::chrono::milliseconds limit = kLimit);
  // Kills a command that still runs.
  ~AlarmCommand();
  AlarmCommand(const AlarmCommand&) = delete;
  AlarmCommand& operator=(const AlarmCommand&) = delete;

  // Runs the command soon. It has TROUPE_ALARM, TROUPE_ALARM_LEVEL, TROUPE_ALARM_TEXT and TROUPE_RUN in its
  // environment, and the same as one line of JSON on its stdin. Any thread.
  void run(const RaisedAlarm& raised);
  // Waits for the commands that wait or run, for the limit altogether; with `at_once` they are killed instead. Nothing
  // is run afterwards.
  void finish(bool at_once);

 private:
  void work();
  void run_one(const RaisedAlarm& raised);
  std::vector<std::string> words_for(const RaisedAlarm& raised) const;
  bool is_stopped();
  std::chrono::milliseconds left();

  std::string command_, run_;
  std::chrono::milliseconds limit_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<RaisedAlarm> waiting_ TROUPE_GUARDED_BY(mutex_);
  bool closing_ TROUPE_GUARDED_BY(mutex_) = false;  // nothing more comes
  bool stopped_ TROUPE_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point end_ TROUPE_GUARDED_BY(mutex_);  // once it is closing
  std::thread thread_;
};

}  // namespace troupe
