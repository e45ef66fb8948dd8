#include "tools/cli/child_processes.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <string>

#include "runtime/base/close_descriptors.h"
#include "runtime/base/log.h"
#include "tests/process/process.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using namespace std::chrono_literals;

// While an object exists, it captures what this process writes to stderr. The log is set up as in a node.
class CapturedErrors {
 public:
  CapturedErrors() : before_(dup(STDERR_FILENO)) {
    const int file = open((folder_ / "err").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(file, STDERR_FILENO);
    close(file);
    open_log(nullptr, {.stderr_level = LogLevel::info});
  }
  CapturedErrors(const CapturedErrors&) = delete;
  CapturedErrors& operator=(const CapturedErrors&) = delete;
  ~CapturedErrors() {
    close_log();
    dup2(before_, STDERR_FILENO);
    close(before_);
  }
  std::string text() const { return text_of(folder_ / "err"); }
  bool has(const std::string& part) const { return text().find(part) != std::string::npos; }
  size_t count(const std::string& part) const {
    const std::string all = text();
    size_t found = 0;
    for (size_t at = all.find(part); at != std::string::npos; at = all.find(part, at + 1)) ++found;
    return found;
  }

 private:
  TempFolder folder_;
  int before_;
};

std::vector<std::string> shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

// Every process that runs `script` writes its id on a separate line to this file.
struct Ids {
  std::string script(const std::string& then) const { return "echo $$ >> " + (folder / "ids") + "; " + then; }
  std::vector<pid_t> all() const {
    std::ifstream file(folder / "ids");
    return {std::istream_iterator<pid_t>(file), {}};
  }
  TempFolder folder;
};

// Whether the process exists, zombies included.
bool exists(pid_t id) { return kill(id, 0) == 0; }

}  // namespace

TEST_CASE("child_processes: what a child writes appears line by line with its process id") {
  CapturedErrors errors;
  const Ids ids;
  ChildProcesses children;
  CHECK(
      children.start(shell(ids.script("echo one; echo two >&2; printf three; head -c 5000 /dev/zero | tr '\\0' x")), 1)
          .count == 1);
  REQUIRE(eventually([&] { return errors.has("ended with exit code 0"); }));
  const std::string prefix = "worker process " + std::to_string(ids.all().at(0)) + ": ";
  CHECK(errors.has(prefix + "one\n" + prefix + "two\n" + prefix + "threexxx"));
  CHECK(errors.count(prefix) == 4);  // the long line in two pieces
}

TEST_CASE("child_processes: one that crashes is reported with its signal or code and restarted") {
  CapturedErrors errors;
  const Ids ids;
  ChildProcesses children;
  // The first is killed by a signal, the second ends with an error code, the third keeps running.
  const std::string script =
      "case $(wc -l < " + (ids.folder / "ids") + ") in 1) kill -SEGV $$;; 2) exit 7;; *) exec sleep 1000;; esac";
  CHECK(children.start(shell(ids.script(script)), 1).error == "");
  REQUIRE(eventually([&] { return ids.all().size() == 3; }));
  CHECK(errors.has("worker process " + std::to_string(ids.all()[0]) + " was killed by signal 11 (Segmentation fault)"));
  CHECK(errors.has("worker process " + std::to_string(ids.all()[1]) + " ended with exit code 7"));
  children.stop(10s);
  for (const pid_t id : ids.all()) CHECK(!exists(id));
  CHECK(ids.all().size() == 3);
}

TEST_CASE("child_processes: one that ends normally or by a user's mistake is reaped and not restarted") {
  CapturedErrors errors;
  const Ids ids;
  ChildProcesses children;
  for (const int code : {0, 2, 130}) children.start(shell(ids.script("exit " + std::to_string(code))), 1);
  REQUIRE(eventually([&] { return errors.count(" ended with exit code ") == 3; }));
  CHECK(errors.count("it is not restarted") == 1);
  for (const pid_t id : ids.all()) CHECK(eventually([&] { return !exists(id); }));
  // A fourth one shows that nothing was left to do before it.
  children.start(shell(ids.script("exit 0")), 1);
  REQUIRE(eventually([&] { return errors.count(" ended with exit code ") == 4; }));
  CHECK(ids.all().size() == 4);
}

TEST_CASE("child_processes: ends are noticed even if SIGCHLD was ignored") {
  CapturedErrors errors;
  const Ids ids;
  const std::string once = "case $(wc -l < " + (ids.folder / "ids") + ") in 1) exit 7;; *) exec sleep 1000;; esac";
  std::signal(SIGCHLD, SIG_IGN);  // inherited
  ChildProcesses children;
  children.start(shell(ids.script(once)), 1);
  CHECK(eventually([&] { return errors.has("ended with exit code 7"); }));
  CHECK(eventually([&] { return ids.all().size() == 2; }));
  std::signal(SIGCHLD, SIG_IGN);  // later, by a library: the system reaps the children itself
  children.start(shell("exit 7"), 1);
  CHECK(eventually([&] { return errors.has("ended with an unknown exit code; starting another"); }));
  children.stop(10s);
  for (const pid_t id : ids.all()) CHECK(!exists(id));
  std::signal(SIGCHLD, SIG_DFL);
}

TEST_CASE("child_processes: a program that does not exist counts as a crash") {
  CapturedErrors errors;
  ChildProcesses children;
  CHECK(children.start({"/nowhere/troupe"}, 1).count == 1);
  CHECK(eventually([&] { return errors.has("the program cannot be started"); }));
  CHECK(eventually([&] { return errors.has("ended with exit code 127"); }));
}

TEST_CASE("child_processes: stop asks all to end, kills those that do not, and nothing is started afterwards") {
  CapturedErrors errors;
  const Ids ids;
  ChildProcesses children;
  children.start(shell(ids.script("exec sleep 1000")), 2);
  children.start(shell("trap '' TERM; " + ids.script("while :; do sleep 1000; done")), 2);
  REQUIRE(eventually([&] { return ids.all().size() == 4; }));
  children.stop(200ms);
  for (const pid_t id : ids.all()) CHECK(!exists(id));
  CHECK(children.start(shell("exit 0"), 1).error == "the node is stopping");
  CHECK(!errors.has("starting another"));
}

TEST_CASE("child_processes: every way to close inherited descriptors keeps the first three open") {
  constexpr int kMany = 700;
  const auto listed = [](int first) {
    if (!close_listed_descriptors_from(first)) _exit(99);
  };
  const auto close_from = {std::function<void(int)>(close_descriptors_from), std::function<void(int)>(listed),
                           std::function<void(int)>(close_possible_descriptors_from)};
  for (const auto& close_all_from : close_from) {
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0; i < kMany; ++i)
        if (dup(STDIN_FILENO) < 0) break;
      close_all_from(3);
      int left = 0;
      for (int number = 0; number < 2 * kMany; ++number) left += fcntl(number, F_GETFD) >= 0 ? 1 : 0;
      _exit(left);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 3);
  }
}

TEST_CASE("child_processes: stop interrupts a start, and waits for the started processes as long as for others") {
  CapturedErrors errors;
  const Ids ids;
  ChildProcesses children;
  const std::string script = "trap 'echo bye; exit 0' TERM; " + ids.script("while :; do sleep 0.05; done");
  auto started = std::async(std::launch::async, [&] { return children.start(shell(script), 1000); });
  REQUIRE(eventually([&] { return !ids.all().empty(); }));
  children.stop(60s);
  const auto result = started.get();
  CHECK(result.count < 1000);
  CHECK(result.error == "the node is stopping");
  CHECK(errors.has("worker process " + std::to_string(ids.all().at(0)) + ": bye\n"));
  for (const pid_t id : ids.all()) CHECK(!exists(id));
}

TEST_CASE(
    "child_processes: ends are noticed when the children that were started are more than the files that may be open") {
  CapturedErrors errors;
  const Ids ids;
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator{});
  };
  ChildProcesses children;
  const auto before = open_files();
  constexpr int kCount = 40;
  CHECK(children.start(shell("exec > /dev/null 2>&1; " + ids.script("exec sleep 1000")), kCount).count == kCount);
  // Each has closed its output by then, so that one descriptor is left for its end.
  REQUIRE(eventually([&] { return ids.all().size() == kCount && open_files() == before + kCount; }));
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit lower{60, limit.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &lower) == 0);
  kill(ids.all().at(0), SIGKILL);
  CHECK(eventually([&] { return errors.has("was killed by signal 9"); }));
  setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_CASE("child_processes: children are stopped even if nobody reads stderr") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  while (write(ends[1], "x", 1) == 1) {
  }
  fcntl(ends[1], F_SETFL, 0);  // now a write waits for a reader
  const int saved = dup(STDERR_FILENO);
  open_log(nullptr, {.to_stderr = false});
  const Ids ids;
  {
    ChildProcesses children;
    CHECK(children.start(shell(ids.script("echo line; exec sleep 1000")), 1).count == 1);
    dup2(ends[1], STDERR_FILENO);
    REQUIRE(eventually([&] { return ids.all().size() == 1; }));
    children.stop(10s);
  }
  dup2(saved, STDERR_FILENO);
  close_log();
  for (const int descriptor : {ends[0], ends[1], saved}) close(descriptor);
  CHECK(!exists(ids.all().at(0)));
}

TEST_CASE("child_processes: no child outlives the process that started it") {
  const Ids ids;
  const pid_t parent = fork();
  if (parent == 0) {
    ChildProcesses children;
    children.start(shell(ids.script("exec sleep 1000")), 3);
    while (true) pause();
  }
  REQUIRE(eventually([&] { return ids.all().size() == 3; }));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  // This process cannot reap them, and the process that adopts them may leave them as zombies.
  const auto runs = [](pid_t id) {
    const std::string stat = text_of("/proc/" + std::to_string(id) + "/stat");
    return !stat.empty() && stat.find(") Z") == std::string::npos;
  };
  for (const pid_t id : ids.all()) CHECK(eventually([&] { return !runs(id); }));
}

TEST_CASE("child_processes: 300 children start, write and end") {
  CapturedErrors errors;
  ChildProcesses children;
  CHECK(children.start(shell("echo hello"), 300).count == 300);
  CHECK(eventually([&] { return errors.count(" ended with exit code 0") == 300; }));
  CHECK(errors.count(": hello\n") == 300);
}

TEST_CASE("child_processes: more children than the limit are refused with the limit") {
  CapturedErrors errors;
  ChildProcesses children;
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit lower{64, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &lower) == 0);
  const auto started = children.start(shell("exec sleep 1000"), 64);
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(started.count < 64);
  CHECK(started.count > 0);
  CHECK(started.error == "Too many open files");
}
