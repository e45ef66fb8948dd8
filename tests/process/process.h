#pragma once
// Programs that a test starts, signals and waits for. Every wait is for an event with a deadline, never for a fixed
// time.

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace troupe::test {

using Words = std::vector<std::string>;

// Concatenates two argument lists.
Words operator+(Words left, const Words& right);

bool has(const std::string& text, const std::string& part);

// Long enough for a busy machine; a passing test never waits this long.
constexpr std::chrono::seconds kPatience{60};

// Whether `condition` becomes true before the deadline. Checks it once per `pause`.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds deadline = kPatience,
                std::chrono::microseconds pause = std::chrono::milliseconds(5));

// The text of a file; empty if there is no file, and for a file of a process under /proc once that process has ended.
std::string text_of(const std::string& path);

class Process {
 public:
  // Starts `command[0]` (a program of this build, or a path). `limit_file_size` bounds the files it may write, in
  // bytes, as `ulimit -f` does.
  explicit Process(Words command, std::optional<rlim_t> limit_file_size = {});
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();  // kills the process if it still runs

  pid_t id() const { return id_; }
  void signal(int number) const;
  // The exit code, or 128 + N if signal N ended the process. Nothing while it runs; `wait` waits until the deadline.
  std::optional<int> exit_code();
  std::optional<int> wait(std::chrono::milliseconds deadline = kPatience);
  // What the process has written so far.
  std::string out() const { return text_of(files_ / "out"); }
  std::string err() const { return text_of(files_ / "err"); }
  uint64_t resident_bytes() const;
  uint64_t peak_resident_bytes() const;

 private:
  uint64_t status_bytes(const std::string& key) const;

  TempFolder files_;
  pid_t id_ = 0;
  std::optional<int> exit_code_;
};

// The result of a command that ran to its end. The exit code is -1 if it did not end before the deadline.
struct CommandLine {
  explicit CommandLine(const Words& words);
  int exit_code = -1;
  std::string out, err;
};

}  // namespace troupe::test
