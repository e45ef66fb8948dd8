// Worker processes that join a run, are killed or frozen, or are started by a node.
#include <signal.h>

#include <chrono>
#include <filesystem>

#include "tests/process/train_process.h"
#include "tests/support/sanitized.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using Clock = std::chrono::steady_clock;

const Words kRemoteOnly = set({"workers.count=0", "stop.env_steps=0", "stop.updates=1000000"});
// The lag cap is high enough for credits of several workers at once, even if the workers are slow.
const Words kRoomForMany = set({"replay.max_policy_lag=4", "trainer.epochs=1"});

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

uint64_t workers_up(const std::string& folder) {
  const Json metrics = metrics_of(folder);
  return metrics.is_null() ? 0 : metrics.at("workers").at("up").get<uint64_t>();
}

void check_balanced_end(TrainProcess& run) {
  CHECK(run.interrupt().value_or(-1) == 130);
  const Json summary = run.summary();
  REQUIRE(summary.is_object());
  CHECK_MESSAGE(balances(summary.at("ledger")), summary.at("ledger").dump());
}

}  // namespace

TEST_CASE("worker: a worker process joins a run quickly, needs little memory and ends with the run") {
  TempFolder folder;
  TrainProcess run(folder / "run", kRemoteOnly + set({"stats.interval_ms=10", "trainer.super_batch=128"}));
  REQUIRE(eventually([&] { return !metrics_of(run.folder()).is_null(); }));
  CHECK(run.updates() == 0);
  const auto begin = Clock::now();
  const auto worker = start_worker(run.workers_at());
  REQUIRE(eventually([&] { return log_has(run.folder(), "worker 0 connected"); }));
  const double joined_ms = milliseconds_since(begin);
  REQUIRE(eventually([&] { return run.updates() > 0; }));
  const double trained_ms = milliseconds_since(begin);
  const double megabytes = static_cast<double>(worker->peak_resident_bytes()) / 1e6;
  MESSAGE("joined after " << joined_ms << " ms, trained on after " << trained_ms << " ms (target 150), " << megabytes
                          << " MB (target 25)");
  CHECK(trained_ms < 4 * 150 + 2000);  // a busy machine is slow to start a process
  if (!test::kSanitized) CHECK(megabytes < 2 * 25);
  check_balanced_end(run);
  CHECK(worker->wait().value_or(-1) == 0);
  CHECK(worker->err() == "");
}

TEST_CASE("worker: the run's statistics say how the actors of a worker process spend their time") {
  TempFolder folder;
  TrainProcess run(folder / "run", kRemoteOnly);
  const auto worker = start_worker(run.workers_at(), 2);
  const auto figure = [&](const char* name, const char* kind) {
    const Json stats = metrics_of(run.folder());
    const Json actors = stats.is_null() ? Json() : stats.value("joined_actors", Json());
    const Json of = actors.is_null() ? Json() : actors.value(name, Json());
    return of.is_null() ? Json() : of.value(kind, Json());
  };
  REQUIRE(eventually([&] { return figure("busy", "worker").is_number(); }));
  const double busy = figure("busy", "worker").get<double>();
  CHECK(busy >= 0);
  CHECK(busy <= 1);
  for (const char* name : {"busy", "blocked", "waiting", "oldest_seconds"})
    for (const char* kind : {"worker", "worker host"}) CHECK_MESSAGE(figure(name, kind).is_number(), name, " ", kind);
  CHECK(run.interrupt().value_or(-1) == 130);
}

TEST_CASE("worker: 64 worker processes together need less than 2 GB") {
  TempFolder folder;
  TrainProcess run(folder / "run", kRemoteOnly + kRoomForMany + set({"env.rows=1"}));
  std::vector<std::unique_ptr<Process>> workers;
  for (int i = 0; i < 64; ++i) workers.push_back(start_worker(run.workers_at()));
  REQUIRE(eventually([&] { return log_count(run.folder(), " connected from") == 64; }));
  REQUIRE(run.makes_updates());
  double megabytes = 0;
  for (const auto& worker : workers) megabytes += static_cast<double>(worker->resident_bytes()) / 1e6;
  MESSAGE("64 workers: " << megabytes << " MB (target 2000)");
  CHECK(megabytes > 64);
  if (!test::kSanitized) CHECK(megabytes < 2000);
  check_balanced_end(run);
  for (const auto& worker : workers) CHECK_MESSAGE(worker->wait().value_or(-1) == 0, worker->err());
}

TEST_CASE("worker: after workers are killed and replaced one by one the ledger balances") {
  TempFolder folder;
  TrainProcess run(folder / "run", kRemoteOnly + kRoomForMany);
  std::vector<std::unique_ptr<Process>> workers;
  for (int i = 0; i < 3; ++i) workers.push_back(start_worker(run.workers_at()));
  for (size_t kills = 1; kills <= 8; ++kills) {
    REQUIRE(run.makes_updates());
    auto& victim = workers[kills % workers.size()];
    victim->signal(SIGKILL);
    REQUIRE(victim->wait().value_or(-1) == 137);
    REQUIRE(eventually([&] { return log_count(run.folder(), " ended: ") == kills; }));
    victim = start_worker(run.workers_at());
    REQUIRE(eventually([&] { return log_count(run.folder(), " connected from") == 3 + kills; }));
  }
  REQUIRE(eventually([&] { return workers_up(run.folder()) == 3; }));
  REQUIRE(run.makes_updates());
  check_balanced_end(run);
  for (const auto& worker : workers) CHECK(worker->wait().value_or(-1) == 0);
}

TEST_CASE("worker: after its only worker is killed the run continues with a new one") {
  TempFolder folder;
  TrainProcess run(folder / "run", kRemoteOnly);
  auto first = start_worker(run.workers_at());
  REQUIRE(run.makes_updates());
  first->signal(SIGKILL);
  REQUIRE(eventually([&] { return log_has(run.folder(), "worker 0 ended"); }));
  auto second = start_worker(run.workers_at());
  CHECK(run.makes_updates());
  check_balanced_end(run);
}

TEST_CASE("worker: a frozen worker counts as gone, and joins again after SIGCONT") {
  TempFolder folder;
  TrainProcess run(folder / "run",
                   kRemoteOnly + kRoomForMany + set({"network.heartbeat_ms=200", "network.peer_timeout_ms=1000"}));
  const auto frozen = start_worker(run.workers_at());
  REQUIRE(run.makes_updates());
  const auto other = start_worker(run.workers_at());
  REQUIRE(eventually([&] { return log_has(run.folder(), "worker 1 connected"); }));
  frozen->signal(SIGSTOP);
  REQUIRE(eventually([&] { return log_has(run.folder(), "worker 0 ended"); }));
  CHECK(run.makes_updates());
  frozen->signal(SIGCONT);
  CHECK(eventually([&] { return log_has(run.folder(), "worker 2 connected"); }));
  CHECK(eventually([&] { return workers_up(run.folder()) == 2; }));
  CHECK(run.makes_updates());
  check_balanced_end(run);
  CHECK(frozen->wait().value_or(-1) == 0);
  CHECK(other->wait().value_or(-1) == 0);
}

TEST_CASE("worker: a worker loses a frozen run, and joins it again after SIGCONT") {
  TempFolder folder;
  TrainProcess run(folder / "run", kRemoteOnly + set({"network.heartbeat_ms=200", "network.peer_timeout_ms=1000"}));
  const auto worker = start_worker(run.workers_at());
  REQUIRE(run.makes_updates());
  run.process().signal(SIGSTOP);
  REQUIRE(eventually([&] { return has(worker->err(), "joining again"); }));
  run.process().signal(SIGCONT);
  CHECK(eventually([&] { return log_has(run.folder(), "worker 1 connected"); }));
  CHECK(run.makes_updates());
  check_balanced_end(run);
}

TEST_CASE("worker: Ctrl-C ends a worker process with 130, and the run continues") {
  TempFolder folder;
  TrainProcess run(folder / "run", kRemoteOnly);
  const auto worker = start_worker(run.workers_at(), 2);
  REQUIRE(eventually([&] { return log_count(run.folder(), " connected from") == 2; }));
  const auto other = start_worker(run.workers_at());
  REQUIRE(run.makes_updates());
  worker->signal(SIGINT);
  CHECK(worker->wait().value_or(-1) == 130);
  CHECK(eventually([&] { return log_count(run.folder(), " has left") == 2; }));
  CHECK(run.makes_updates());
  check_balanced_end(run);
}

TEST_CASE("node: its workers sample for a run and end with it, and the node serves the next run") {
  TempFolder folder;
  NodeProcess node;
  for (const std::string name : {"first", "second"}) {
    TrainProcess run(folder / name, kRemoteOnly + kRoomForMany);
    const CommandLine started = node.spawn(3, run.workers_at());
    CHECK(started.exit_code == 0);
    CHECK(started.out == "3 workers started on " + node.address() + "\n");
    CHECK(eventually([&] { return log_count(run.folder(), " connected from") == 3; }));
    CHECK(run.makes_updates());
    check_balanced_end(run);
  }
  CHECK(node.process().exit_code() == std::nullopt);
  CHECK(!has(node.process().err(), "warn"));
  node.process().signal(SIGINT);
  CHECK(node.process().wait().value_or(-1) == 130);
}

TEST_CASE("node: after a node and its workers are killed, the run continues with other workers") {
  TempFolder folder;
  TrainProcess run(folder / "run", kRemoteOnly + kRoomForMany);
  NodeProcess node;
  REQUIRE(node.spawn(3, run.workers_at()).exit_code == 0);
  const auto other = start_worker(run.workers_at());
  REQUIRE(eventually([&] { return log_count(run.folder(), " connected from") == 4; }));
  node.process().signal(SIGKILL);
  CHECK(eventually([&] { return log_count(run.folder(), " ended: ") == 3; }));
  CHECK(run.makes_updates());
  check_balanced_end(run);
}

TEST_CASE("spawn: an address where no run or no node answers gives a one-line error, and the node keeps running") {
  TempFolder folder;
  TrainProcess run(folder / "run", kRemoteOnly);
  NodeProcess node;
  const auto spawn = [](const std::string& at, const std::string& for_run) {
    return CommandLine({"troupe", "spawn", "--node", at, "--workers", "1", "--run", for_run});
  };
  const auto refused = [](const CommandLine& line, const std::string& part) {
    CAPTURE(line.err);
    CHECK(line.exit_code == 2);
    CHECK(line.out == "");
    CHECK(std::count(line.err.begin(), line.err.end(), '\n') == 1);
    CHECK(has(line.err, part));
  };
  refused(spawn(node.address(), "127.0.0.1:1"), "127.0.0.1:1");
  refused(spawn(node.address(), node.address()), node.address());
  refused(spawn(node.address(), run.stats_at()), run.stats_at());
  refused(spawn("127.0.0.1:1", run.workers_at()), "--node 127.0.0.1:1");
  refused(spawn(run.workers_at(), run.workers_at()), "--node " + run.workers_at());
  refused(spawn(run.stats_at(), run.workers_at()), "--node " + run.stats_at());
  CHECK(node.spawn(1, run.workers_at()).exit_code == 0);
  CHECK(run.makes_updates());
  CHECK(run.interrupt().value_or(-1) == 130);
}
