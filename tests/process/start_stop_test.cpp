// Programs that are started and ended many times. At its end an actor system of CAF 0.17.6 can wait forever for one of
// its own threads (runtime/caf/owned_system.h). A process with this fault would sometimes not end.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "tests/process/train_process.h"
#include "tests/support/run_command.h"
#include "tests/support/sanitized.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// The limit from the signal, or from the summary, to the end of the process. It takes milliseconds on an idle machine
// and longer on a busy one.
constexpr std::chrono::seconds kEnd{15};

const Words kEndless = set({"stop.env_steps=0", "stop.updates=1000000"});
const Words kShort = set({"stop.env_steps=2048", "checkpoint.every_updates=0"});

int end_of(Process& process, int signal) {
  process.signal(signal);
  return process.wait(kEnd).value_or(-1);
}

}  // namespace

TEST_CASE("start and stop: INT and TERM end a worker process with 130 at any time") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless + set({"workers.count=0", "replay.max_policy_lag=4"}));
  REQUIRE(eventually([&] { return !metrics_of(run.folder()).is_null(); }));  // before that, a run refuses workers
  for (size_t cycle = 1; cycle <= 12; ++cycle) {
    const auto worker = start_worker(run.workers_at(), cycle % 3 == 0 ? 2 : 1);
    REQUIRE(eventually([&] { return log_count(run.folder(), " connected from") >= cycle + cycle / 3; }));
    if (cycle % 2 == 0) REQUIRE(run.makes_updates());  // while it samples, or right after it joined
    CHECK_MESSAGE(end_of(*worker, cycle % 4 == 0 ? SIGINT : SIGTERM) == 130, "cycle " << cycle);
    CHECK(worker->err() == "");
  }
  CHECK(end_of(run.process(), SIGTERM) == 130);
  CHECK(balances(run.summary().at("ledger")));
}

TEST_CASE("start and stop: short runs and their worker processes always end by themselves with 0") {
  TempFolder folder;
  for (int cycle = 0; cycle < 8; ++cycle) {
    CAPTURE(cycle);
    const bool remote = cycle % 2 == 1;
    TrainProcess run(folder / std::to_string(cycle), kShort + set({remote ? "workers.count=0" : "workers.count=1"}));
    const auto worker = remote ? start_worker(run.workers_at()) : nullptr;
    CHECK(eventually([&] { return run.summary().is_object(); }));
    CHECK(run.process().wait(kEnd).value_or(-1) == 0);
    CHECK(balances(run.summary().at("ledger")));
    if (worker) CHECK(worker->wait(kEnd).value_or(-1) == 0);
  }
}

TEST_CASE("start and stop: stop.seconds ends a run that never gets a sample, with 0 and a checkpoint") {
  TempFolder folder;
  Process run(train_line(folder / "run", set({"workers.count=0", "stop.env_steps=0", "stop.seconds=1"})));
  CHECK(run.wait().value_or(-1) == 0);
  const Json summary = json_of(folder / "run/summary.json");
  REQUIRE(summary.is_object());
  CHECK(summary.at("reason") == "stop.seconds reached");
  CHECK(summary.at("updates") == 0);
  CHECK(summary.at("ledger").at("produced") == 0);
  CHECK(checkpoints_of(folder / "run") == std::vector<uint64_t>{0});
}

TEST_CASE("start and stop: TERM ends a node with 130, idle or with workers") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless + set({"workers.count=0", "replay.max_policy_lag=4"}));
  REQUIRE(eventually([&] { return !metrics_of(run.folder()).is_null(); }));  // before that, a run refuses workers
  for (size_t cycle = 1; cycle <= 8; ++cycle) {
    NodeProcess node;
    if (cycle % 2 == 0) {
      CHECK(node.spawn(2, run.workers_at()).exit_code == 0);
      REQUIRE(eventually([&] { return log_count(run.folder(), " connected from") >= cycle; }));
    }
    CHECK_MESSAGE(end_of(node.process(), SIGTERM) == 130, "cycle " << cycle);
  }
  CHECK(end_of(run.process(), SIGTERM) == 130);
}

TEST_CASE("start and stop: every program refuses a stack limit that is too small, with one line") {
  TempFolder folder;
  const std::vector<Words> lines = {train_line(folder / "run"),
                                    {"troupe", "worker", "--connect", "127.0.0.1:9"},
                                    {"troupe", "node", "--listen", "127.0.0.1:0"},
                                    {"troupe", "envs"}};
  for (Words line : lines) {
    CAPTURE(line[1]);
    line[0] = test::built_program(line[0]);
    const CommandLine small(Words{"/bin/sh", "-c", "ulimit -s 100 && exec \"$@\"", "sh"} + line);
    CHECK(small.exit_code == 2);
    CHECK(small.err == "troupe: `ulimit -s` allows stacks of 100 KiB, at least 128 KiB are needed: raise it\n");
  }
  CHECK_FALSE(std::filesystem::exists(folder / "run"));
}

TEST_CASE("start and stop: a working directory that was deleted is refused with one line") {
  TempFolder folder;
  Words line = train_line(folder / "run");
  line[0] = test::built_program(line[0]);
  const std::string gone = folder / "gone";
  const CommandLine run(Words{"/bin/sh", "-c", "mkdir \"$0\" && cd \"$0\" && rmdir \"$0\" && exec \"$@\"", gone} +
                        line);
  CHECK(run.exit_code == 2);
  CHECK_MESSAGE(run.err.starts_with("troupe: the working directory cannot be read: "), run.err);
  CHECK(std::ranges::count(run.err, '\n') == 1);
  CHECK_FALSE(std::filesystem::exists(folder / "run"));
}

// AddressSanitizer needs more address space than these limits allow.
#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("start and stop: a run that does not fit into the address space is refused and writes nothing") {
  TempFolder folder;
  const auto run_with = [&](const std::string& limits, const Words& settings) {
    Words line = train_line(folder / "run", kEndless + settings);
    line[0] = test::built_program(line[0]);
    return CommandLine(Words{"/bin/sh", "-c", limits + " && exec \"$@\"", "sh"} + line);
  };
  // First stacks of 4 GiB for 200 workers in 128 GiB, then too little for the few threads of a small run.
  for (const CommandLine& run : {run_with("ulimit -s 4194304 && ulimit -v 134217728", set({"workers.count=200"})),
                                 run_with("ulimit -v 600000", {})}) {
    CHECK(run.exit_code == 2);
    CHECK_MESSAGE(run.err.find("troupe: `ulimit -v` leaves ") != std::string::npos, run.err);
    CHECK(run.err.find("raise it, or lower workers.count\n") != std::string::npos);
  }
  // Too little for LibTorch, for what it allocates while it is loaded, and for the first threads.
  for (int megabytes = 80; megabytes < 460; megabytes += 20) {
    const CommandLine run = run_with("ulimit -v " + std::to_string(1000 * megabytes), {});
    CAPTURE(megabytes);
    CHECK((run.exit_code == 1 || run.exit_code == 2));
    CHECK_MESSAGE((run.err.starts_with("troupe: ") && has(run.err, "`ulimit -v`")), run.err);
    CHECK(std::ranges::count(run.err, '\n') == 1);
  }
  CHECK_FALSE(std::filesystem::exists(folder / "run"));
}
#endif

TEST_CASE("start and stop: the peak of memory is that of the run, not of the program that has started it") {
  constexpr size_t kMuch = size_t{512} << 20;
  const TempFolder folder;
  // Touched, so that it is resident while the run starts.
  const std::vector<char> held(kSanitized ? 1 : kMuch, 'x');
  TrainProcess run(folder / "run", kShort);
  REQUIRE(run.process().wait(kEnd).value_or(-1) == 0);
  const double peak = run.summary().at("last_start").at("peak_rss_bytes");
  CHECK(peak > 1e7);
  if (!kSanitized) CHECK(peak < 0.6 * static_cast<double>(kMuch));
  CHECK(held.back() == 'x');
}
