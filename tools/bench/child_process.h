#pragma once
// BenchProcess: a child process of a benchmark. Main thread only: the child ends with the thread that started it.

#include <sys/types.h>
#include <time.h>

#include <string>
#include <vector>

namespace troupe {

// The processor time in seconds that a clock shows; 0 if the clock does not exist.
double cpu_seconds_of(clockid_t clock);

// Between fork() and exec() or the work of the child: makes it end with this process, however that ends, and take
// signals as at the start of a program. `parent` is the process id before fork(). Makes only system calls.
void begin_child(pid_t parent);

// It ends with this object. What it prints on stdout is dropped.
class BenchProcess {
 public:
  // `command` begins with the path of the program. Throws std::runtime_error when it cannot be started.
  explicit BenchProcess(std::vector<std::string> command);
  ~BenchProcess();
  BenchProcess(const BenchProcess&) = delete;
  BenchProcess& operator=(const BenchProcess&) = delete;

  double cpu_seconds() const { return cpu_seconds_of(clock_); }

 private:
  pid_t pid_ = 0;
  clockid_t clock_{};
};

}  // namespace troupe
