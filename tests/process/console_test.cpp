// Programs whose output is not read, is closed or cannot be written. They continue to work, and their outcome decides
// the exit code.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tests/process/train_process.h"
#include "tests/support/run_command.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const Words kEndless = set({"stop.env_steps=0", "stop.updates=1000000", "checkpoint.every_updates=5"});
const Words kShort = set({"stop.env_steps=0", "stop.updates=2"});

// `words` started by a shell with these redirections. $0 in `redirections` is `path`.
Words redirected(const std::string& redirections, const std::string& path, Words words) {
  words[0] = test::built_program(words[0]);
  return Words{"/bin/sh", "-c", R"(exec "$@" )" + redirections, path} + words;
}

// A named pipe with a buffer of one page that is held open and not read.
class UnreadPipe {
 public:
  explicit UnreadPipe(const std::string& path) : path_(path) {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(descriptor_ >= 0);
    REQUIRE(fcntl(descriptor_, F_SETPIPE_SZ, 4096) >= 0);
  }
  UnreadPipe(const UnreadPipe&) = delete;
  UnreadPipe& operator=(const UnreadPipe&) = delete;
  ~UnreadPipe() { ::close(descriptor_); }

  const std::string& path() const { return path_; }
  std::string read() const {
    char block[8192];
    const ssize_t count = ::read(descriptor_, block, sizeof block);
    return {block, static_cast<size_t>(std::max<ssize_t>(count, 0))};
  }

 private:
  std::string path_;
  int descriptor_ = -1;
};

constexpr const char* kNotRead = "stdout is not read";

}  // namespace

TEST_CASE("console: a run whose output is not read keeps writing checkpoints, and TERM ends it with all its files") {
  TempFolder folder;
  const std::string at = folder / "run";
  const UnreadPipe pipe(folder / "pipe");
  Process run(redirected(R"(> "$0" 2>&1)", pipe.path(), train_line(at, kEndless + set({"stats.interval_ms=10"}))));
  REQUIRE(eventually([&] { return log_has(at, kNotRead); }));
  const uint64_t before = updates_of(at);
  CHECK(eventually([&] { return !checkpoints_of(at).empty() && checkpoints_of(at).back() > before + 10; }));
  CHECK(updates_of(at) > before);
  run.signal(SIGTERM);
  CHECK(run.wait().value_or(-1) == 130);
  const Json summary = json_of(at + "/summary.json");
  REQUIRE(summary.is_object());
  CHECK(summary.at("reason") == "interrupted");
  CHECK(checkpoints_of(at).back() == summary.at("updates"));
}

TEST_CASE("console: when the output of a run is read again, the run prints how many lines were not shown") {
  TempFolder folder;
  const std::string at = folder / "run";
  const UnreadPipe pipe(folder / "pipe");
  Process run(redirected(R"(> "$0")", pipe.path(), train_line(at, kEndless + set({"stats.interval_ms=10"}))));
  REQUIRE(eventually([&] { return log_has(at, kNotRead); }));
  CHECK(eventually([&] { return has(pipe.read(), " not shown)\n"); }));
  run.signal(SIGTERM);
  CHECK(run.wait().value_or(-1) == 130);
}

TEST_CASE("console: a second INT ends a run whose output is not read") {
  TempFolder folder;
  const std::string at = folder / "run";
  const UnreadPipe pipe(folder / "pipe");
  const Words slow = set({"env.id=Synthetic", "env.params={\"step_us\": 60000000, \"step_mode\": \"sleep\"}"});
  Process run(
      redirected(R"(> "$0" 2>&1)", pipe.path(), train_line(at, kEndless + slow + set({"stats.interval_ms=10"}))));
  REQUIRE(eventually([&] { return log_has(at, kNotRead); }));
  run.signal(SIGINT);
  REQUIRE(eventually([&] {
    run.signal(SIGINT);
    return run.exit_code().has_value();
  }));
  CHECK(run.exit_code() == 130);
}

TEST_CASE("console: a run whose output is full or closed ends with exit code 0 and one warning in its log") {
  TempFolder folder;
  for (const std::string redirections : {"> /dev/full", ">&-", ">&- 2>&-", "> /dev/full 2>&1", "<&- >&- 2>&-"}) {
    CAPTURE(redirections);
    const std::string at = folder / "run";
    Process run(redirected(redirections, "sh", train_line(at, kShort)));
    CHECK(run.wait().value_or(-1) == 0);
    CHECK(log_count(at, "stdout cannot be written") == 1);
    CHECK(json_of(at + "/summary.json").is_object());
    std::filesystem::remove_all(at);
  }
}

TEST_CASE("console: a run whose output pipe loses its reader ends with exit code 0") {
  TempFolder folder;
  const std::string at = folder / "run", path = folder / "pipe";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  Process run(redirected(R"(> "$0")", path, train_line(at, set({"stop.env_steps=0", "stop.updates=20"}))));
  CHECK(eventually([&] { return std::filesystem::exists(at + "/endpoints.json"); }));
  ::close(reader);
  CHECK(run.wait().value_or(-1) == 0);
  CHECK(log_count(at, "stdout cannot be written: Broken pipe") == 1);
}

TEST_CASE("console: a worker whose output is closed joins, samples and ends with exit code 0") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless + set({"workers.count=0"}));
  Process worker(redirected(">&- 2>&-", "sh", {"troupe", "worker", "--connect", run.workers_at()}));
  CHECK(run.makes_updates());
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(worker.wait().value_or(-1) == 0);
}

TEST_CASE("console: a command whose output is its result fails when the output cannot be written") {
  for (const Words& words :
       {Words{"troupe", "config", "cartpole"}, Words{"troupe", "envs"}, Words{"troupe", "version"}})
    for (const std::string redirections : {"> /dev/full", ">&-"}) {
      CAPTURE(words[1]);
      CAPTURE(redirections);
      const CommandLine command(redirected(redirections, "sh", words));
      CHECK(command.exit_code == 1);
      CHECK(command.err == "troupe: the output cannot be written\n");
    }
}

TEST_CASE("console: control characters in the name of a run folder are printed escaped, on one line") {
  TempFolder folder;
  const std::string at = folder / "a\n\x1b[2Jb";
  const CommandLine trained(train_line(at, kShort));
  CHECK(trained.exit_code == 0);
  CHECK(has(trained.out, "/a\\x0a\\x1b[2Jb\n"));
  CHECK(!has(trained.out + trained.err, "\x1b"));
  const CommandLine refused(train_line(at, kShort + set({"env.id=Pendulum"})));
  CHECK(refused.exit_code == 2);
  CHECK(std::ranges::count(refused.err, '\n') == 1);
  CHECK(!has(refused.err, "\x1b"));
}
