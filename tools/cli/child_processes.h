#pragma once
// ChildProcesses: the worker processes of a node. Each is a child of its own: what it writes appears on stderr, line by
// line with its process id, one that crashes is reported and started again, and none outlives this process. Functions
// may be called from any thread.
//
// One thread does all the work, because the system ends a child together with the thread that started it
// (PR_SET_PDEATHSIG).

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

class ChildProcesses {
 public:
  static constexpr size_t kMost = 4096;  // at a time

  ChildProcesses();
  ~ChildProcesses();  // as stop() without patience
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  struct Started {
    size_t count = 0;
    std::string error;  // why there are fewer than asked for; empty otherwise
  };
  // Starts `count` processes of `command`, whose first word is a path. Blocks until they run; after stop() nothing is
  // started.
  //
  // A process that ends with 0, 130 (Ctrl-C) or 2 (a user's mistake) is not started again. Any other end is a crash,
  // after which it is, see RestartLimit.
  Started start(const std::vector<std::string>& command, size_t count);

  // Asks every child to end (SIGTERM), ends those that have not after `patience` (SIGKILL), and returns when all are
  // reaped.
  void stop(std::chrono::milliseconds patience);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace troupe
