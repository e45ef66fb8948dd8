#include "tools/cli/child_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <future>
#include <list>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "actors/restart_limit.h"
#include "runtime/base/close_descriptors.h"
#include "runtime/base/descriptor.h"
#include "runtime/base/log.h"
#include "runtime/base/machine.h"
#include "runtime/base/mutex.h"
#include "runtime/base/output.h"
#include "runtime/base/text_format.h"
#include "tools/cli/launch.h"

namespace troupe {

namespace {

using Clock = std::chrono::steady_clock;
using SharedWords = std::shared_ptr<const std::vector<std::string>>;

constexpr size_t kLongestLine = 4000;  // bytes; a longer line is written in pieces that fit into PIPE_BUF
// Reads of kLongestLine bytes from one child before the next child is read. Together more than a pipe holds.
constexpr int kReadsAtOnce = 32;
constexpr std::chrono::milliseconds kLook{1000};  // between checks for ended children, where pidfd_open fails

// The largest number of children. Each takes two descriptors; kOwnFiles are for the node's own files and connections.
size_t most_children() {
  constexpr uint64_t kOwnFiles = 32;
  const uint64_t files = std::max(raise_open_files(), kOwnFiles + 2);
  return std::min<uint64_t>(ChildProcesses::kMost, (files - kOwnFiles) / 2);
}

// NOLINTNEXTLINE(concurrency-mt-unsafe): glibc's strerror() is per thread
std::string system_error() { return std::strerror(errno); }

// In the child, between fork and exec: system calls only.
[[noreturn]] void become(char* const* arguments, int output, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitFailure);  // the parent ended before prctl() took effect
  setpgid(0, 0);                                 // Ctrl-C must reach only the parent, which stops its children
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  close_descriptors_from(3);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);  // NOLINT(concurrency-mt-unsafe): the child has one thread
  execv(arguments[0], arguments);
  constexpr std::string_view kFailed = "the program cannot be started\n";
  if (write(STDERR_FILENO, kFailed.data(), kFailed.size()) < 0) _exit(126);
  _exit(127);
}

// How a process ended, as waitpid() reports it; nothing if the system kept no status.
using EndStatus = std::optional<int>;

std::string describe_end(EndStatus end) {
  if (!end) return "ended with an unknown exit code";
  const int status = *end;
  if (WIFEXITED(status)) return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  const char* name = sigdescr_np(WTERMSIG(status));
  return "was killed by signal " + std::to_string(WTERMSIG(status)) + (name ? std::string(" (") + name + ")" : "");
}

bool crashed(EndStatus end) {
  if (!end || !WIFEXITED(*end)) return true;
  const int code = WEXITSTATUS(*end);
  return code != 0 && code != kExitInterrupted && code != kExitUserMistake;
}

}  // namespace

// The thread and its data. The public functions are called by other threads.
class ChildProcesses::Loop {
 public:
  explicit Loop(Words words) : words_(std::move(words)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (wake_.number() < 0) throw std::runtime_error("eventfd: " + system_error());
    thread_ = std::thread([this] { run(); });
  }
  ~Loop() { stop(std::chrono::milliseconds(0)); }

  Started start(const std::vector<std::string>& command, size_t count) {
    auto request = std::make_unique<Request>();
    request->command = std::make_shared<const std::vector<std::string>>(command);
    request->count = count;
    std::future<Started> started = request->started.get_future();
    {
      const MutexLock lock(mutex_);
      if (stop_patience_) return {0, ending()};
      requests_.push_back(std::move(request));
    }
    wake();
    return started.get();
  }

  void stop(std::chrono::milliseconds patience) {
    {
      const MutexLock lock(mutex_);
      if (!stop_patience_) stop_patience_ = patience;
    }
    wake();
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Request {
    SharedWords command;
    size_t count = 0;
    std::promise<Started> started;
  };
  struct Child {
    pid_t id = 0;
    Descriptor ended;   // readable once it has ended
    Descriptor output;  // its stdout and stderr; none once it has closed them
    std::string line;   // incomplete so far
    bool has_output = false, may_have_ended = false;
    SharedWords command;
    RestartLimit restarts;
  };
  struct Resting {
    Clock::time_point due;
    SharedWords command;
    RestartLimit restarts;
  };

  std::string ending() const { return words_.self + " is stopping"; }
  void wake() const {
    const uint64_t one = 1;
    if (write(wake_.number(), &one, sizeof one) < 0) return;  // the counter is full: the thread is awake already
  }

  void run();
  void wait_for_something();
  void take_requests();
  std::optional<std::chrono::milliseconds> stop_asked();
  void stop_when_asked();
  std::string start_one(const SharedWords& command, const RestartLimit& restarts);
  void read_output(Child& child);
  void pass_on(Child& child, std::string_view text) const;
  bool reap(Child& child);
  void on_end(Child& child, EndStatus status);
  void start_again(const std::string& what, const SharedWords& command, RestartLimit restarts);
  void restart_those_due();
  void signal_all(int signal) const;

  Mutex mutex_;
  std::vector<std::unique_ptr<Request>> requests_ TROUPE_GUARDED_BY(mutex_);
  std::optional<std::chrono::milliseconds> stop_patience_ TROUPE_GUARDED_BY(mutex_);  // set by stop()

  const Words words_;
  const size_t most_ = most_children();
  Descriptor wake_;
  bool stopping_ = false;
  std::optional<Clock::time_point> kill_at_;  // when to kill the children that are left; set while stopping
  std::list<Child> children_;
  std::list<Resting> resting_;
  std::thread thread_;
};

void ChildProcesses::Loop::run() {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);  // the reader of our stderr may close it
  while (!stopping_ || !children_.empty()) {
    wait_for_something();
    take_requests();
    stop_when_asked();
    for (auto child = children_.begin(); child != children_.end();) {
      if (std::exchange(child->has_output, false)) read_output(*child);
      const bool gone = std::exchange(child->may_have_ended, false) && reap(*child);
      child = gone ? children_.erase(child) : std::next(child);
    }
    restart_those_due();
  }
  take_requests();  // one that came just before stop(): it is told that the node is ending
}

void ChildProcesses::Loop::wait_for_something() {
  std::vector<pollfd> watched{{wake_.number(), POLLIN, 0}};
  std::optional<Clock::time_point> until;
  const auto no_later_than = [&](Clock::time_point time) { until = until ? std::min(*until, time) : time; };
  // Only open descriptors: poll() fails if the list is longer than the limit on open files.
  const auto watch = [&](const Descriptor& descriptor) {
    if (descriptor.number() >= 0) watched.push_back({descriptor.number(), POLLIN, 0});
  };
  for (const Child& child : children_) {
    watch(child.output);
    watch(child.ended);
    if (child.ended.number() < 0) no_later_than(Clock::now() + kLook);
  }
  for (const Resting& resting : resting_) no_later_than(resting.due);
  if (kill_at_) no_later_than(*kill_at_);
  int timeout = -1;
  if (until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now());
    timeout = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
  }
  if (poll(watched.data(), watched.size(), timeout) < 0) return;
  auto seen = watched.begin() + 1;
  for (Child& child : children_) {
    child.has_output = child.output.number() >= 0 && (seen++)->revents != 0;
    child.may_have_ended = child.ended.number() < 0 || (seen++)->revents != 0;
  }
  uint64_t wakes = 0;
  if (read(wake_.number(), &wakes, sizeof wakes) < 0) return;  // another descriptor woke poll()
}

std::optional<std::chrono::milliseconds> ChildProcesses::Loop::stop_asked() {
  const MutexLock lock(mutex_);
  return stop_patience_;
}

void ChildProcesses::Loop::take_requests() {
  std::vector<std::unique_ptr<Request>> requests;
  {
    const MutexLock lock(mutex_);
    requests.swap(requests_);
  }
  for (const auto& request : requests) {
    Started started;
    while (started.count < request->count && started.error.empty()) {
      started.error = stop_asked() ? ending() : start_one(request->command, {});
      started.count += started.error.empty();
    }
    request->started.set_value(std::move(started));
  }
}

void ChildProcesses::Loop::stop_when_asked() {
  const auto patience = stop_asked();
  if (!patience) return;
  if (!std::exchange(stopping_, true)) {
    resting_.clear();
    signal_all(SIGTERM);
    kill_at_ = Clock::now() + *patience;
  }
  if (kill_at_ && Clock::now() >= *kill_at_) {
    kill_at_.reset();
    signal_all(SIGKILL);
  }
}

// Starts one process. Returns the reason why it could not; empty if it runs.
std::string ChildProcesses::Loop::start_one(const SharedWords& command, const RestartLimit& restarts) {
  if (children_.size() + resting_.size() >= most_)
    return words_.self + " already runs " + format_counted(most_, words_.child) + ", its maximum" +
           (most_ < kMost ? "; a higher `ulimit -n` allows more" : "");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error();
  Descriptor output(ends[0]);
  const Descriptor input(ends[1]);
  fcntl(output.number(), F_SETFL, O_NONBLOCK);
  std::vector<char*> arguments;
  for (const std::string& word : *command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid(), id = fork();
  if (id == 0) become(arguments.data(), input.number(), parent);
  if (id < 0) return system_error();
  const auto ended = static_cast<int>(syscall(SYS_pidfd_open, id, 0));  // readable once it has ended; closed on exec
  Child child{.id = id, .ended = Descriptor(ended), .output = std::move(output)};
  child.command = command;
  child.restarts = restarts;
  children_.push_back(std::move(child));
  return {};
}

void ChildProcesses::Loop::read_output(Child& child) {
  char buffer[kLongestLine];
  for (int reads = 0; reads < kReadsAtOnce && child.output.number() >= 0; ++reads) {
    const ssize_t count = read(child.output.number(), buffer, sizeof buffer);
    if (count > 0) {
      pass_on(child, {buffer, static_cast<size_t>(count)});
    } else if (count == 0 || errno != EINTR) {
      if (count == 0) child.output = Descriptor();
      return;
    }
  }
}

void ChildProcesses::Loop::pass_on(Child& child, std::string_view text) const {
  const auto write_line = [&] {
    print_error(words_.child + " process " + std::to_string(child.id) + ": " + child.line);
    child.line.clear();
  };
  for (const char c : text) {
    if (c != '\n') child.line += c;
    if (c == '\n' || child.line.size() >= kLongestLine) write_line();
  }
}

// Removes the zombie of a child that has ended, and handles its end. False if the child still runs.
bool ChildProcesses::Loop::reap(Child& child) {
  int status = 0;
  const pid_t id = waitpid(child.id, &status, WNOHANG);
  if (id == 0 || (id < 0 && errno != ECHILD)) return false;
  read_output(child);
  if (!child.line.empty()) pass_on(child, "\n");
  on_end(child, id == child.id ? EndStatus(status) : std::nullopt);
  return true;
}

void ChildProcesses::Loop::on_end(Child& child, EndStatus status) {
  const std::string what = words_.child + " process " + std::to_string(child.id) + ' ' + describe_end(status);
  if (stopping_) return;
  if (!crashed(status)) {
    const bool mistake = WEXITSTATUS(*status) == kExitUserMistake;
    return mistake ? log_warn(words_.parent, what + "; it is not restarted") : log_info(words_.parent, what);
  }
  start_again(what, child.command, child.restarts);
}

// Restarts a worker after the pause that `restarts` gives, or gives it up after too many restarts.
void ChildProcesses::Loop::start_again(const std::string& what, const SharedWords& command, RestartLimit restarts) {
  const auto pause = restarts.next_pause(Clock::now());
  if (!pause)
    return log_error(words_.parent, what + ", after " + std::to_string(RestartLimit::kMost) + " restarts within " +
                                        std::to_string(RestartLimit::kWindow.count()) +
                                        " minutes; it is not restarted");
  const std::string after = pause->count() == 0 ? "" : " in " + std::to_string(pause->count()) + " ms";
  log_warn(words_.parent, what + "; starting another" + after);
  resting_.push_back({Clock::now() + *pause, command, restarts});
}

void ChildProcesses::Loop::restart_those_due() {
  std::list<Resting> due;
  for (auto resting = resting_.begin(); resting != resting_.end();) {
    const auto next = std::next(resting);
    if (resting->due <= Clock::now()) due.splice(due.end(), resting_, resting);
    resting = next;
  }
  for (const Resting& resting : due) {
    const std::string error = start_one(resting.command, resting.restarts);
    if (!error.empty())
      start_again("a " + words_.child + " process cannot be started: " + error, resting.command, resting.restarts);
  }
}

void ChildProcesses::Loop::signal_all(int signal) const {
  for (const Child& child : children_) {
    if (signal == SIGKILL) kill(-child.id, signal);  // and the processes that it has started
    kill(child.id, signal);
  }
}

ChildProcesses::ChildProcesses(Words words) {
  std::signal(SIGCHLD, SIG_DFL);  // if it is ignored, as the parent may have set it, the system keeps no exit codes
  loop_ = std::make_unique<Loop>(std::move(words));
}

ChildProcesses::~ChildProcesses() = default;

ChildProcesses::Started ChildProcesses::start(const std::vector<std::string>& command, size_t count) {
  return loop_->start(command, count);
}

void ChildProcesses::stop(std::chrono::milliseconds patience) { loop_->stop(patience); }

}  // namespace troupe
