#pragma once
// ChildProcess: a program that this process starts, talks to through given descriptors, and ends. The child has its own
// process group, so that Ctrl-C reaches only its parent, and is killed with its group when the parent ends, however
// that happens. The rest of the group is killed when the end of the child is noticed. Its stdin is empty; its stdout
// and stderr go to one pipe, which its owner reads. One thread at a time.

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/descriptor.h"

namespace troupe {

class ChildProcess {
 public:
  // Called with each complete line of output, without its newline.
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
  // Waits at most `limit` for the child to end, reading its output meanwhile. Returns whether it has ended.
  bool wait(std::chrono::milliseconds limit);
  // Kills the child and the processes of its group, and waits for its end.
  void kill();

  // A descriptor that becomes readable when the child writes to stdout or stderr; -1 once these are closed.
  int output() const { return output_.number(); }
  // Reads what the child has written so far, at most kMostRead bytes. Does not block. wait() calls it; code that waits
  // for something else of the child polls output() too, because a child with a full pipe stops.
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

 private:
  bool reap(bool block);
  void take(std::string_view text);
  void end_line();

  pid_t id_ = -1;
  Descriptor life_;    // the child is killed when this end of a pipe is closed
  Descriptor ended_;   // readable once the child has ended; none if the system has no pidfd
  Descriptor output_;  // its stdout and stderr
  OnLine on_line_;
  std::optional<int> status_;  // as waitpid() reports it
  std::string line_;           // incomplete so far
  std::deque<std::string> lines_;
};

}  // namespace troupe
