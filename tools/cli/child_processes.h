#pragma once
// ChildProcesses: the worker processes of a node, or the rank processes of a run. What a child writes appears on
// stderr, each line with its process id. A child that crashes is reported and restarted. No child outlives this
// process. Functions may be called from any thread.
//
// One thread does all the work, because the kernel kills a child when the thread that started it ends
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

  // For lines on the console and in the log.
  struct Words {
    std::string parent = "node", child = "worker", self = "the node";
  };
  explicit ChildProcesses(Words words = {"node", "worker", "the node"});
  ~ChildProcesses();  // as stop() with a patience of 0
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  struct Started {
    size_t count = 0;
    std::string error;  // why fewer were started than requested; empty otherwise
  };
  // Starts `count` processes of `command`, whose first word is a path. Blocks until they run. After stop() it starts
  // none.
  //
  // A process that ends with 0, 130 (Ctrl-C) or 2 (a user's mistake) is not restarted. Any other end is a crash, after
  // which it is restarted within the limits of RestartLimit.
  Started start(const std::vector<std::string>& command, size_t count);

  // Asks every child to end (SIGTERM), kills those that are left after `patience` (SIGKILL), and returns when all are
  // reaped.
  void stop(std::chrono::milliseconds patience);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace troupe
