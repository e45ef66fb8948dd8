#include "runtime/base/child_process.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <set>

#include "runtime/base/blocked.h"
#include "runtime/base/close_descriptors.h"
#include "runtime/base/file.h"
#include "runtime/base/mutex.h"

namespace troupe {

namespace {

constexpr int kFirst = 3;                            // the number of the first descriptor that the child is given
constexpr std::chrono::milliseconds kLook{10};       // between checks for the end of a child, where there is no pidfd
constexpr std::chrono::milliseconds kFirstWait{20};  // for one child, before the output of the others is read as well
constexpr std::chrono::milliseconds kLongestWait{60'000};  // poll() has an int

Mutex outputs_mutex;  // of what all children write, and of this set
std::set<ChildProcess*> with_output TROUPE_GUARDED_BY(outputs_mutex);
std::condition_variable_any delivered;  // to the owner of any child

struct Pipe {
  Descriptor read, write;
};

Pipe make_pipe(const std::string& program) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw IoError(program, "no pipe for its start", errno);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// The path of the program: `name` itself if it contains a slash, else the first executable file of that name in PATH.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread of this program changes its environment
  const char* variable = std::getenv("PATH");
  std::string_view path = variable == nullptr ? "/usr/local/bin:/usr/bin:/bin" : variable;
  while (!name.empty() && !path.empty()) {
    const size_t end = std::min(path.find(':'), path.size());
    const std::string folder(path.substr(0, end)), file = (folder.empty() ? "." : folder) + '/' + name;
    if (access(file.c_str(), X_OK) == 0) return file;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  throw IoError(name, "no program of this name in PATH");
}

// What the child needs between fork and exec, prepared before the fork.
struct Start {
  const char* program;
  char* const* arguments;
  std::vector<int> sources;  // become kFirst, kFirst + 1, ...; the last is the life pipe
  int output;
  int report;  // gets errno if the program cannot be started
};

[[noreturn]] void report_and_exit(int report) {
  const int error = errno;
  if (::write(report, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

// Lets the system kill the process group of this process when the other end of the pipe `life` is closed. Unlike
// PR_SET_PDEATHSIG, this does not depend on the thread that started the child.
void end_with_parent(int life) {
  if (fcntl(life, F_SETOWN, -getpid()) != 0 || fcntl(life, F_SETSIG, SIGKILL) != 0 ||
      fcntl(life, F_SETFL, O_ASYNC) != 0)
    _exit(126);
  pollfd other{life, POLLIN, 0};
  if (poll(&other, 1, 0) != 0) _exit(126);  // the parent ended before
}

// In the child, between fork and exec: system calls only.
[[noreturn]] void become(Start& start) {
  setpgid(0, 0);
  const int end = kFirst + static_cast<int>(start.sources.size());
  // First above all targets, so that no source is overwritten before it is used.
  for (int& source : start.sources) {
    source = fcntl(source, F_DUPFD, end + 2);
    if (source < 0) report_and_exit(start.report);
  }
  const int output = fcntl(start.output, F_DUPFD, end + 2), report = fcntl(start.report, F_DUPFD, end + 2);
  if (output < 0 || report < 0) report_and_exit(start.report);
  int target = kFirst;
  for (const int source : start.sources)
    if (dup2(source, target++) < 0) report_and_exit(report);
  if (dup2(report, end) < 0 || fcntl(end, F_SETFD, FD_CLOEXEC) != 0) report_and_exit(report);
  if (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0) report_and_exit(end);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) report_and_exit(end);
  close_descriptors_from(end + 1);
  end_with_parent(end - 1);
  sigset_t none;
  sigemptyset(&none);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the child has one thread
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);  // the only signal that troupe ignores
  execv(start.program, start.arguments);
  report_and_exit(end);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments, std::span<const int> descriptors, OnLine on_line)
    : on_line_(std::move(on_line)) {
  const std::string program = find_program(arguments.at(0));
  Pipe life = make_pipe(program), output = make_pipe(program), report = make_pipe(program);
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  Start start{program.c_str(), words.data(), {}, output.write.number(), report.write.number()};
  start.sources.assign(descriptors.begin(), descriptors.end());
  start.sources.push_back(life.read.number());

  id_ = fork();
  if (id_ == 0) become(start);
  if (id_ < 0) throw IoError(program, "cannot be started", errno);
  life_ = std::move(life.write);
  output_ = std::move(output.read);
  fcntl(output_.number(), F_SETFL, O_NONBLOCK);
  ended_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, id_, 0)));
  report.write = Descriptor();
  output.write = Descriptor();
  int error = 0;
  ssize_t got = 0;
  while ((got = ::read(report.read.number(), &error, sizeof error)) < 0 && errno == EINTR) continue;
  if (got == sizeof error) {
    reap(true);
    throw IoError(program, "cannot be started", error);
  }
  const MutexLock lock(outputs_mutex);  // the descriptor was closed by exec
  with_output.insert(this);
}

ChildProcess::~ChildProcess() {
  kill();
  const MutexLock lock(outputs_mutex);
  while (delivering_) delivered.wait(outputs_mutex);
  with_output.erase(this);
}

// Whether the child has ended.
bool ChildProcess::reap(bool block) {
  if (status_) return true;
  siginfo_t end{};
  int waited = 0;
  while ((waited = waitid(P_PID, static_cast<id_t>(id_), &end, WEXITED | WNOWAIT | (block ? 0 : WNOHANG))) != 0 &&
         errno == EINTR)
    continue;
  if (waited == 0 && end.si_pid == 0) return false;
  // What it has started ends with it. Before its status is taken, after which its number may be that of another group.
  if (waited == 0) ::kill(-id_, SIGKILL);
  int status = 0;
  pid_t reaped = 0;
  while ((reaped = waitpid(id_, &status, block ? 0 : WNOHANG)) < 0 && errno == EINTR) continue;
  if (reaped == 0) return false;
  status_ = reaped < 0 ? -1 : status;  // -1: somebody else has taken its status
  return true;
}

bool ChildProcess::wait(std::chrono::milliseconds limit) {
  const Deadline deadline(limit);
  while (!reap(false)) {
    if (deadline.passed()) return false;
    pollfd end{ended_.number(), POLLIN, 0};
    wait_for({&end, 1}, end.fd >= 0 ? deadline : Deadline(std::min(deadline.left(), kLook)));
  }
  read_output();
  return true;
}

void ChildProcess::wait_for(std::span<pollfd> watched, const Deadline& deadline) {
  // The usual case first, because it is faster to wait for few descriptors.
  std::vector<pollfd> all(watched.begin(), watched.end());
  {
    const MutexLock lock(outputs_mutex);
    all.push_back({output_.number(), POLLIN, 0});
  }
  for (auto limit = kFirstWait;; limit = kLongestWait) {
    const bool any = poll_blocked(all, std::min(deadline.left(), limit));
    for (size_t i = 0; i < watched.size(); ++i) watched[i].revents = any ? all[i].revents : short{0};
    if (any) read_outputs_of(std::span(all).subspan(watched.size()));
    const auto ready = [](const pollfd& each) { return each.revents != 0; };
    if (std::ranges::any_of(watched, ready) || deadline.passed()) return;
    all.resize(watched.size());
    const MutexLock lock(outputs_mutex);
    for (const ChildProcess* child : with_output) all.push_back({child->output_.number(), POLLIN, 0});
  }
}

// A descriptor may have been closed meanwhile, and be that of another child by now: reading does not block.
void ChildProcess::read_outputs_of(std::span<const pollfd> ready) {
  if (std::ranges::all_of(ready, [](const pollfd& each) { return each.revents == 0; })) return;
  std::vector<ChildProcess*> have_read;
  {
    const MutexLock lock(outputs_mutex);
    for (ChildProcess* child : with_output) {
      const auto is_ready = [&](const pollfd& each) { return each.revents != 0 && each.fd == child->output_.number(); };
      if (std::ranges::none_of(ready, is_ready)) continue;
      child->read();
      have_read.push_back(child);
    }
  }
  for (ChildProcess* child : have_read) {
    {
      const MutexLock lock(outputs_mutex);
      if (!with_output.contains(child) || !child->begin_delivery()) continue;  // one that is gone has done it
    }
    child->deliver();
  }
}

void ChildProcess::kill() {
  if (!status_) {
    ::kill(-id_, SIGKILL);
    reap(true);
  }
  life_ = Descriptor();  // kills what is left of its group
  read_output();
}

bool ChildProcess::has_output() const {
  const MutexLock lock(outputs_mutex);
  return output_.number() >= 0;
}

void ChildProcess::read_output() {
  {
    const MutexLock lock(outputs_mutex);
    read();
    // Another thread that hands lines on takes these too.
    while (delivering_) delivered.wait(outputs_mutex);
    if (!begin_delivery()) return;
  }
  deliver();
}

// With the mutex held: whether this thread has to call deliver() once it is not.
bool ChildProcess::begin_delivery() {
  if (delivering_ || pending_.empty()) return false;
  delivering_ = true;
  return true;
}

// Hands lines on without the mutex, because on_line_ may write to a slow disk, for which no other child should wait.
void ChildProcess::deliver() {
  for (;;) {
    std::string text;
    {
      const MutexLock lock(outputs_mutex);
      text.swap(pending_);
      if (text.empty()) {
        delivering_ = false;
        return delivered.notify_all();
      }
    }
    for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(rest.find('\n') + 1))
      on_line_(rest.substr(0, rest.find('\n')));
  }
}

void ChildProcess::read() {
  char buffer[4096];
  for (size_t total = 0; output_.number() >= 0 && total < kMostRead;) {
    const ssize_t got = ::read(output_.number(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return;  // nothing more at present
    if (got == 0) {
      output_ = Descriptor();
      if (!line_.empty()) end_line();
      return;
    }
    take({buffer, static_cast<size_t>(got)});
    total += static_cast<size_t>(got);
  }
}

void ChildProcess::take(std::string_view text) {
  for (const char c : text) {
    if (c != '\n') line_ += c;
    if (c == '\n' || line_.size() >= kLongestLine) end_line();
  }
}

void ChildProcess::end_line() {
  if (on_line_ && pending_.size() + line_.size() < kMostPending) pending_.append(line_) += '\n';
  lines_.push_back(std::move(line_));
  line_.clear();
  if (lines_.size() > kLines) lines_.pop_front();
}

std::string ChildProcess::last_lines() const {
  const MutexLock lock(outputs_mutex);
  std::string text;
  for (const std::string& line : lines_) text += line + '\n';
  text += line_;
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string ChildProcess::last_line() const {
  const std::string text = last_lines();
  return text.substr(text.rfind('\n') + 1);
}

std::string ChildProcess::state() const {
  if (!status_) return "is running";
  if (*status_ < 0) return "ended with an unknown exit code";
  if (WIFEXITED(*status_)) return "ended with exit code " + std::to_string(WEXITSTATUS(*status_));
  const int signal = WTERMSIG(*status_);
  const char* name = sigdescr_np(signal);
  return "was killed by signal " + std::to_string(signal) + (name ? std::string(" (") + name + ')' : "");
}

std::optional<int> ChildProcess::exit_code() const {
  if (!status_ || *status_ < 0 || !WIFEXITED(*status_)) return std::nullopt;
  return WEXITSTATUS(*status_);
}

}  // namespace troupe
