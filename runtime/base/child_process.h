#pragma once
// ChildProcess: a program that this process starts, talks to through given descriptors, and ends. The child has its own
// process group, so that Ctrl-C reaches only its parent, and is killed with its group when the parent ends, however
// that happens. The rest of the group is killed when the end of the child is noticed. Its stdin is empty; its stdout
// and stderr go to one pipe, which every thread reads that waits for any child. All else of a child is used by one
// thread at a time.

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/descriptor.h"

namespace troupe {

class ChildProcess {
 public:
  // Called with each complete line of output, without its newline, in whichever thread has read it, in their order and
  // one line of a child at a time. While it takes long, other threads read on; of what they read of this child, at most
  // kMostPending bytes are kept for it. It must neither throw nor use a ChildProcess.
  using OnLine = std::function<void(std::string_view line)>;

  // Starts `arguments`, the first of which is a path, or a name that is looked up in PATH. The child gets `descriptors`
  // as 3, 4 and so on, and inherits no others; the caller keeps its own. Throws IoError when the program is missing or
  // cannot be started.
  ChildProcess(const std::vector<std::string>& arguments, std::span<const int> descriptors, OnLine on_line = {});
  // Kills the child and its group if it has not ended.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const { return id_; }
  // Waits at most `limit` for the child to end, reading the output of all children meanwhile. Returns whether it has
  // ended.
  bool wait(std::chrono::milliseconds limit);
  // Waits until one of `watched` is ready, as poll() reports it, or the limit has passed; then all their revents are 0.
  // Reads the output of all children meanwhile.
  void wait_for(std::span<pollfd> watched, const Deadline& deadline);
  // Kills the child and the processes of its group, and waits for its end.
  void kill();

  // Whether the child may still write to stdout or stderr: they have not been seen closed.
  bool has_output() const;
  // Reads what the child has written so far, at most kMostRead bytes. Blocks only until its complete lines are handed
  // on.
  void read_output();
  // The last lines of its output, at most kLines, separated by newlines.
  std::string last_lines() const;
  // The last line that is not empty; empty if there is none.
  std::string last_line() const;

  // "ended with exit code 3", "was killed by signal 9 (Killed)", or "is running".
  std::string state() const;
  // The exit code; nothing while it runs or if a signal ended it.
  std::optional<int> exit_code() const;

  static constexpr size_t kLines = 40;
  static constexpr size_t kMostRead = 1 << 18;  // bytes
  static constexpr size_t kLongestLine = 2000;  // bytes; a longer line is cut into pieces
  static constexpr size_t kMostPending = 16 * kMostRead;

 private:
  static void read_outputs_of(std::span<const pollfd> ready);
  bool reap(bool block);
  void read();
  void take(std::string_view text);
  void end_line();
  bool begin_delivery();
  void deliver();

  pid_t id_ = -1;
  Descriptor life_;            // the child is killed when this end of a pipe is closed
  Descriptor ended_;           // readable once the child has ended; none if the system has no pidfd
  std::optional<int> status_;  // as waitpid() reports it
  // What follows is used by every thread that waits for a child, under one mutex of all children.
  Descriptor output_;  // its stdout and stderr
  OnLine on_line_;
  std::string line_;  // incomplete so far
  std::deque<std::string> lines_;
  std::string pending_;      // lines that on_line_ has not got, each with its newline
  bool delivering_ = false;  // a thread calls on_line_, without the mutex; the child exists until it has ended that
};

}  // namespace troupe
