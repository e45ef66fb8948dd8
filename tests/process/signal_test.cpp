// Signals that ask a program to stop: during start, training and the last evaluation of a run, several at once, and
// signals that are ignored from the start.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/process/train_process.h"
#include "tests/support/run_command.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGHUP};

const Words kEndless = set({"stop.env_steps=0", "stop.updates=1000000", "checkpoint.every_updates=0"});
const Words kDeterministic = set({"deterministic=true", "stats.every_updates=1"});
const Words kEndlessEvaluation = set({"stop.updates=2", "evaluation.episodes=1000000", "evaluation.rows=1"});

// Checks that a run that was asked to stop wrote its summary and a checkpoint of its last update.
void check_stopped(Process& run, const std::string& folder) {
  CHECK(run.wait().value_or(-1) == 130);
  const Json summary = json_of(folder + "/summary.json");
  REQUIRE(summary.is_object());
  CHECK(summary.at("reason") == "interrupted");
  REQUIRE(!checkpoints_of(folder).empty());
  CHECK(checkpoints_of(folder).back() == summary.at("updates"));
}

std::string signal_name(int number) { return std::string("SIG") + sigabbrev_np(number); }

// Whether the process blocks this signal, so that it is pending until the process handles it.
bool blocks(const Process& process, int number) {
  std::ifstream status("/proc/" + std::to_string(process.id()) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigBlk:")) return (std::stoull(line.substr(7), nullptr, 16) >> (number - 1) & 1) != 0;
  return false;
}

// `words` started by a shell that ignores the signal `name`.
Words ignoring(const std::string& name, Words words) {
  words[0] = test::built_program(words[0]);
  return Words{"/bin/sh", "-c", "trap '' " + name + R"(; exec "$@")", "sh"} + words;
}

}  // namespace

TEST_CASE("signals: each stop signal makes a run write a checkpoint and end with 130") {
  TempFolder folder;
  for (const int number : kStopSignals) {
    CAPTURE(number);
    TrainProcess run(folder / std::to_string(number), kEndless);
    REQUIRE(run.makes_updates(1));
    run.process().signal(number);
    check_stopped(run.process(), run.folder());
  }
}

TEST_CASE("signals: several stop signals at once end a run normally, with its checkpoint") {
  TempFolder folder;
  for (const int first : kStopSignals) {
    CAPTURE(first);
    TrainProcess run(folder / std::to_string(first), kEndless);
    REQUIRE(run.makes_updates(1));
    run.process().signal(first);
    for (const int number : kStopSignals) run.process().signal(number);
    for (const int number : kStopSignals) run.process().signal(number);
    check_stopped(run.process(), run.folder());
  }
}

TEST_CASE("signals: a deterministic run stops at each stop signal followed by others") {
  TempFolder folder;
  for (const int number : kStopSignals) {
    CAPTURE(number);
    const std::string at = folder / std::to_string(number);
    Process run(train_line(at, kEndless + kDeterministic));
    REQUIRE(eventually([&] { return updates_of(at) > 0; }));
    run.signal(number);
    run.signal(SIGTERM);
    run.signal(SIGUSR1);
    check_stopped(run, at);
  }
}

TEST_CASE("signals: a stop signal during the last evaluation ends the run and keeps its updates") {
  TempFolder folder;
  for (const int number : kStopSignals) {
    CAPTURE(number);
    TrainProcess run(folder / std::to_string(number), kEndlessEvaluation);
    REQUIRE(eventually([&] { return checkpoints_of(run.folder()) == std::vector<uint64_t>{2}; }));
    run.process().signal(number);
    REQUIRE(
        eventually([&] { return has(run.process().err(), "stopping at "); }));  // of two, the lower number comes first
    run.process().signal(SIGTERM);
    CHECK(run.process().wait().value_or(-1) == 130);
    CHECK(run.summary().at("updates") == 2);
    CHECK(has(run.process().err(), "stopping at " + signal_name(number) + ": training has ended; the last evaluation"));
    CHECK(has(run.process().out(), "\nevaluation: stopped before its end, so there is no result;"));
    CHECK(run.summary().at("seconds_after_training").get<double>() > 0);
  }
}

TEST_CASE("signals: a stop signal during the start of a run leaves no folder or a complete one") {
  TempFolder folder;
  for (const int number : kStopSignals) {
    CAPTURE(number);
    const std::string at = folder / std::to_string(number);
    Process run(train_line(at, kEndless));
    REQUIRE(eventually([&] { return blocks(run, number); }));
    run.signal(number);
    CHECK(run.wait().value_or(-1) == 130);
    if (std::filesystem::exists(at)) check_stopped(run, at);
  }
}

// A step of the environment takes a minute, so that the run cannot write a checkpoint during the test. It is given up
// after some seconds; on a slow machine that can be before the second INT, and then the test tries again.
TEST_CASE("signals: a second INT ends a run at once, but not within a second of the first signal") {
  TempFolder folder;
  int attempts = 0;
  REQUIRE(eventually([&] {
    const std::string at = folder / std::to_string(attempts++);
    const Words slow{"troupe", "train", "synthetic", "--run", at};
    Process run(slow + kDeterministic + set({"env.params.step_us=60000000", "env.params.step_mode=sleep"}));
    REQUIRE(eventually([&] { return log_has(at, "process"); }));
    run.signal(SIGTERM);
    REQUIRE(eventually([&] { return has(run.err(), "stopping"); }));
    const Clock::time_point first = Clock::now();
    REQUIRE(eventually([&] {
      for (const int number : kStopSignals) run.signal(number);
      return run.exit_code().has_value();
    }));
    CHECK(Clock::now() - first >= std::chrono::seconds(1));
    CHECK(run.exit_code() == 130);
    if (std::filesystem::exists(at + "/summary.json")) return false;
    CHECK(run.err().ends_with("\ntroupe: ended without waiting for the checkpoint; none was written before\n"));
    return true;
  }));
}

// An evaluation whose step does not return delays a normal end for some seconds. On a slow machine the run can end
// normally before the second INT; then the test tries again.
TEST_CASE("signals: a run that a second INT ends removes endpoints.json and prints its newest checkpoint") {
  TempFolder folder;
  const Words stalled_evaluation =
      set({"env.id=Synthetic", R"(env.params={"image_height": 1, "image_width": 1})",
           R"(evaluation.env_params={"stall_probability": 1, "stall_ms": 3600000})", "evaluation.every_updates=1"});
  int attempts = 0;
  REQUIRE(eventually([&] {
    TrainProcess run(folder / std::to_string(attempts++),
                     kEndless + stalled_evaluation + set({"checkpoint.every_updates=1"}));
    REQUIRE(run.makes_updates());
    REQUIRE(eventually([&] {
      run.process().signal(SIGINT);
      return run.process().exit_code().has_value();
    }));
    CHECK(run.process().exit_code() == 130);
    CHECK(!std::filesystem::exists(run.folder() + "/endpoints.json"));
    if (run.summary().is_object()) return false;
    const std::string newest = checkpoint_folder(run.folder(), checkpoints_of(run.folder()).back());
    CHECK(run.process().err().ends_with("\ntroupe: ended without waiting for the checkpoint; the newest one is " +
                                        newest + '\n'));
    return true;
  }));
}

TEST_CASE("signals: workers, inference processes and nodes end with 130 at each stop signal followed by others") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless);
  const Words commands[] = {{"troupe", "worker", "--connect", run.workers_at()},
                            {"troupe", "inference", "--connect", run.workers_at()},
                            {"troupe", "node", "--listen", "127.0.0.1:0"}};
  for (const Words& command : commands) {
    for (const int number : kStopSignals) {
      CAPTURE(command[1]);
      CAPTURE(number);
      Process process(command);
      REQUIRE(eventually([&] { return blocks(process, number); }));
      process.signal(number);
      for (const int more : kStopSignals) process.signal(more);
      CHECK(process.wait().value_or(-1) == 130);
    }
  }
  CHECK(run.makes_updates());
  run.process().signal(SIGTERM);
  check_stopped(run.process(), run.folder());
}

namespace {

// The process that `parent` has started with this word in its command line; 0 while there is none.
pid_t child_with(pid_t parent, const std::string& word) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream status(entry.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line == "PPid:\t" + std::to_string(parent) && has(text_of(entry.path() / "cmdline"), word))
        return static_cast<pid_t>(std::stol(name));
  }
  return 0;
}

// One that has ended counts, also while nobody has taken its exit code.
bool is_gone(pid_t process) {
  const std::string status = text_of("/proc/" + std::to_string(process) + "/status");
  return status.empty() || has(status, "State:\tZ");
}

}  // namespace

TEST_CASE("signals: a benchmark that is stopped or killed leaves no worker behind") {
  for (const int number : {SIGTERM, SIGINT, SIGKILL}) {
    CAPTURE(number);
    Process bench({"troupe", "bench", "sampling", "--seconds", "600"});
    pid_t worker = 0;
    REQUIRE(eventually([&] { return (worker = child_with(bench.id(), "--connect")) != 0; }));
    bench.signal(number);
    CHECK(bench.wait().value_or(-1) == (number == SIGKILL ? 128 + SIGKILL : 130));
    CHECK(eventually([&] { return is_gone(worker); }));
  }
}

TEST_CASE("signals: simulate stops between two seeds and prints what it has found") {
  Process simulate({"troupe", "simulate", "--seeds", "1..1000000", "--verbose"});
  REQUIRE(eventually([&] { return !simulate.out().empty(); }));  // before its first seed, a signal ends it at once
  simulate.signal(SIGTERM);
  CHECK(simulate.wait().value_or(-1) == 130);
  CHECK(has(simulate.out(), " seeds, 0 failed; "));
}

TEST_CASE("signals: a run started with HUP ignored, as by nohup, continues at HUP and stops at TERM") {
  TempFolder folder;
  const std::string at = folder / "run";
  Process run(ignoring("HUP", train_line(at, kEndless)));
  REQUIRE(eventually([&] { return updates_of(at) > 0; }));
  const uint64_t before = updates_of(at);
  run.signal(SIGHUP);
  CHECK(eventually([&] { return updates_of(at) > before + 3; }));
  CHECK(!has(run.err(), "stopping"));
  run.signal(SIGTERM);
  check_stopped(run, at);
}

TEST_CASE("signals: a run started with INT ignored, as shells start background jobs, stops at INT") {
  TempFolder folder;
  const std::string at = folder / "run";
  Process run(ignoring("INT", train_line(at, kEndless)));
  REQUIRE(eventually([&] { return updates_of(at) > 0; }));
  run.signal(SIGINT);
  check_stopped(run, at);
}

TEST_CASE("signals: a worker started with HUP ignored continues at HUP and ends at TERM") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless + set({"workers.count=0"}));
  Process worker(ignoring("HUP", {"troupe", "worker", "--connect", run.workers_at()}));
  REQUIRE(run.makes_updates());
  worker.signal(SIGHUP);
  CHECK(run.makes_updates());
  worker.signal(SIGTERM);
  CHECK(worker.wait().value_or(-1) == 130);
  CHECK(run.interrupt().value_or(-1) == 130);
}

TEST_CASE("signals: a run whose stderr is full and not read stops at INT") {
  TempFolder folder;
  const std::string at = folder / "run", pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = open(pipe.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  while (write(reader, "x", 1) == 1) {
  }
  Words line = train_line(at, kEndless);
  line[0] = test::built_program(line[0]);
  Process run(Words{"/bin/sh", "-c", R"(errors=$1; shift; exec "$@" 2> "$errors")", "sh", pipe} + line);
  CHECK(eventually([&] { return updates_of(at) > 0; }));
  run.signal(SIGINT);
  check_stopped(run, at);
  close(reader);
}
