#include "tools/bench/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <system_error>

#include "tools/cli/launch.h"

namespace troupe {

namespace {

// In the child: system calls only.
[[noreturn]] void become(char* const* arguments, pid_t parent) {
  begin_child(parent);
  dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
  execv(arguments[0], arguments);
  _exit(127);
}

}  // namespace

double cpu_seconds_of(clockid_t clock) {
  timespec time{};
  return clock_gettime(clock, &time) == 0 ? static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec)
                                          : 0.0;
}

void begin_child(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitFailure);  // the parent ended before prctl() took effect
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

BenchProcess::BenchProcess(std::vector<std::string> command) {
  const std::string& program = command.front();
  if (access(program.c_str(), X_OK) != 0)
    throw std::runtime_error(program + ": cannot be started: " + std::generic_category().message(errno));
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t own = getpid();
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error(program + ": cannot be started: " + std::generic_category().message(errno));
  if (pid_ == 0) become(arguments.data(), own);
  clock_getcpuclockid(pid_, &clock_);
}

BenchProcess::~BenchProcess() {
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

}  // namespace troupe
