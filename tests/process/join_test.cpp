// Processes that join a run before it starts or after it was killed, wrong addresses, the run's timeouts, and the
// messages on the console.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tests/process/raw_connection.h"
#include "tests/process/train_process.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using Clock = std::chrono::steady_clock;

const Words kEndless = set({"stop.env_steps=0", "stop.updates=1000000", "trainer.epochs=1", "replay.max_policy_lag=4"});
const Words kRemoteOnly = kEndless + set({"workers.count=0"});

// A port of the loopback interface on which nothing listens.
std::string free_address() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  ::close(socket);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

std::unique_ptr<Process> start(const std::string& command, const std::string& address, const Words& more = {}) {
  return std::make_unique<Process>(Words{"troupe", command, "--connect", address} + more);
}

// Checks for this long that the run makes updates.
void drive(const TrainProcess& run, std::chrono::seconds time) {
  const Clock::time_point begin = Clock::now();
  while (Clock::now() - begin < time) REQUIRE(run.makes_updates(1));
}

}  // namespace

TEST_CASE("joining: workers and inference processes that start before the run wait for it and print that") {
  TempFolder folder;
  const std::string address = free_address();
  const auto worker = start("worker", address), inference = start("inference", address);
  for (Process* process : {worker.get(), inference.get()}) {
    REQUIRE(eventually([&] { return has(process->err(), "trying again for up to 30 s"); }));
    CHECK(has(process->err(), address + ": cannot connect: Connection refused (has the run started?)"));
  }
  TrainProcess run(folder / "run", kRemoteOnly + set({"inference.count=0"}) + Words{"--listen", address});
  CHECK(run.makes_updates());
  CHECK(worker->out() == "worker 0: joined cartpole (CartPole-v1) at " + address + "\n");
  CHECK(inference->out() == "inference 0: joined cartpole (CartPole-v1) at " + address + "\n");
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(worker->wait().value_or(-1) == 0);
  CHECK(inference->wait().value_or(-1) == 0);
  CHECK(has(worker->out(), "worker 0: ended: the run ended (interrupted)\n"));
  CHECK(has(inference->out(), "inference 0: ended: the run ended (interrupted)\n"));
}

TEST_CASE("joining: if the run does not start within --wait, a process ends with exit code 2 and gives the reason") {
  const std::string address = free_address();
  for (const std::string command : {"worker", "inference"}) {
    CAPTURE(command);
    const auto soon = start(command, address, {"--wait", "1"});
    const CommandLine never({"troupe", command, "--connect", address, "--wait", "0"});
    CHECK(never.exit_code == 2);
    CHECK(never.out == "");
    CHECK(never.err ==
          "troupe: --connect " + address + ": cannot connect: Connection refused (has the run started?); tried once\n");
    CHECK(soon->wait().value_or(-1) == 2);
    CHECK(has(soon->err(), "trying again for up to 1 s\n"));
    CHECK(has(soon->err(), "gave up after 1 s\n"));
  }
}

TEST_CASE("joining: the error about a wrong address names what answers there and where the right address is") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless);
  const NodeProcess node;
  const Server mail("220 mail.example.org ready\r\n"), silent("");
  const std::string right = "; `troupe train` prints the right address in its line `workers`";
  const std::pair<std::string, std::string> cases[] = {
      {run.stats_at(), ": cannot connect: the statistics port of a troupe run answers there" + right},
      {mail.address(), ": cannot connect: another program answers there, with \"220 mail.example.org ready\"" + right},
      {node.address(),
       ": a troupe process answers there that is not a run, such as a `troupe node`, or that has another version" +
           right},
      {silent.address(),
       ": cannot connect: no answer in time; whatever accepts connections there says nothing, as an HTTP server, the "
       "weights port of a run, or a run that hangs" +
           right + "; tried once"}};
  std::vector<std::pair<std::unique_ptr<Process>, std::string>> refused;  // side by side: a silent address takes 5 s
  for (const auto& [address, why] : cases)
    for (const std::string command : {"worker", "inference"})
      refused.emplace_back(start(command, address, address == silent.address() ? Words{"--wait", "0"} : Words{}),
                           "troupe: --connect " + address + why + '\n');
  for (const auto& [process, error] : refused) {
    CHECK(process->wait().value_or(-1) == 2);
    CHECK(process->out() == "");
    CHECK(process->err() == error);
  }
  CHECK(run.makes_updates());
  CHECK(!log_has(run.folder(), "connection"));  // the run logs no problem of its own
}

TEST_CASE("joining: the error about a port that closes every connection names the two possible causes") {
  Server closing("");
  const std::string address = closing.address();
  closing.close_all();
  const CommandLine refused({"troupe", "worker", "--connect", address, "--wait", "0"});
  CHECK(refused.exit_code == 2);
  CHECK(has(refused.err, address + ": cannot connect: it closed the connection at once: another program, or a troupe "
                                   "process that has as many connections as it takes; "));
}

TEST_CASE("joining: a port that announces a huge message is refused before memory is allocated for it") {
  const Server damaged(caf_header(/*operation=*/0, /*payload_bytes=*/0xFFFFFFF0u, 0));
  const CommandLine refused({"troupe", "worker", "--connect", damaged.address(), "--wait", "0"});
  CHECK(refused.exit_code == 2);
  CHECK(refused.err == "troupe: --connect " + damaged.address() +
                           ": cannot connect: it announced a message of 4294967280 bytes; the limit is 34603008; "
                           "`troupe train` prints the right address in its line `workers`; tried once\n");
}

TEST_CASE("joining: if a lost run does not return within --wait, a process ends with exit code 1 and the reason") {
  TempFolder folder;
  TrainProcess run(folder / "run", kRemoteOnly + set({"inference.count=0"}));
  const auto worker = start("worker", run.workers_at(), {"--wait", "1"});
  const auto inference = start("inference", run.workers_at(), {"--wait", "1"});
  REQUIRE(run.makes_updates());
  run.process().signal(SIGKILL);
  for (Process* process : {worker.get(), inference.get()}) {
    CHECK(process->wait().value_or(-1) == 1);
    CHECK(has(process->err(), run.workers_at() + ": the run is gone (the connection is lost)"));
    CHECK(has(process->err(), "joining again for up to 1 s\n"));
    CHECK(has(process->err(), "gave up after 1 s\n"));
  }
}

TEST_CASE("joining: workers and inference processes join again when a killed run is resumed") {
  TempFolder folder;
  const std::string address = free_address();
  const Words fixed = Words{"--listen", address}, any = {};
  // With --listen, and with the port that the run folder keeps from the killed start.
  for (const Words& listen : {fixed, any}) {
    const std::string at = folder / (listen.empty() ? "any" : "fixed");
    const Words line = kRemoteOnly + set({"inference.count=0", "checkpoint.every_updates=2"}) + listen;
    auto run = std::make_unique<TrainProcess>(at, line);
    const std::string workers_at = run->workers_at();
    const auto worker = start("worker", workers_at, {"--count", "2"}), inference = start("inference", workers_at);
    for (int kills = 0; kills < 3; ++kills) {
      REQUIRE(run->makes_updates(4));
      run->process().signal(SIGKILL);
      REQUIRE(run->process().wait().value_or(-1) == 137);
      run = std::make_unique<TrainProcess>(at, line);
      CHECK(run->workers_at() == workers_at);
    }
    REQUIRE(run->makes_updates(4));
    // One that has not joined again when the run ends goes on trying.
    REQUIRE(eventually([&] { return metrics_of(run->folder()).at("workers").at("up") == 2; }));
    CHECK(run->interrupt().value_or(-1) == 130);
    CHECK(balances(run->summary().at("ledger")));
    CHECK(worker->wait().value_or(-1) == 0);
    CHECK(inference->wait().value_or(-1) == 0);
  }
}

TEST_CASE("joining: a resumed run whose last port is taken logs that and listens on another one") {
  TempFolder folder;
  std::string before;
  {
    TrainProcess killed(folder / "run", kEndless);
    before = killed.workers_at();
    killed.process().signal(SIGKILL);
    REQUIRE(killed.process().wait().value_or(-1) == 137);
  }
  const Server other("", port_of(before));
  TrainProcess run(folder / "run", kEndless);
  CHECK(run.workers_at() != before);
  CHECK(log_has(run.folder(),
                "port " + std::to_string(port_of(before)) +
                    ", on which the last start of this run listened, is taken; its workers must be started again"));
  const auto worker = start("worker", run.workers_at());
  REQUIRE(eventually([&] { return log_has(run.folder(), " connected from"); }));  // the run makes updates without it
  CHECK(run.makes_updates());
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(worker->wait().value_or(-1) == 0);
}

// If a process sends heartbeats too rarely, the run always loses it. A busy machine can delay a heartbeat as well, so
// this test and the next one try again after a loss.
TEST_CASE("joining: workers and inference processes send heartbeats as often as the run asks") {
  TempFolder folder;
  int attempts = 0;
  CHECK(eventually([&] {
    TrainProcess run(folder / std::to_string(attempts++),
                     kEndless + set({"network.heartbeat_ms=100", "network.peer_timeout_ms=300"}));
    const auto worker = start("worker", run.workers_at(), {"--count", "2"});
    const auto inference = start("inference", run.workers_at());
    REQUIRE(eventually([&] { return log_has(run.folder(), "inference process 1 serves"); }));
    REQUIRE(eventually([&] { return log_count(run.folder(), " connected from") >= 2; }));
    drive(run, std::chrono::seconds(5));
    if (log_count(run.folder(), " ended: ") > 0 || log_count(run.folder(), " is gone ") > 0) return false;
    CHECK(run.interrupt().value_or(-1) == 130);
    return worker->err().empty();
  }));
}

// The process has at least as many workers as the machine has hardware threads, and each step of an environment
// computes for longer than the timeout.
TEST_CASE("joining: a worker whose environments are slow still sends heartbeats") {
  TempFolder folder;
  const unsigned workers = std::max(4u, std::thread::hardware_concurrency());
  int attempts = 0;
  CHECK(eventually([&] {
    const std::string at = folder / std::to_string(attempts++);
    Process train(Words{"troupe", "train", "synthetic", "--run", at} + kRemoteOnly +
                  set({"env.params.step_us=500000", "env.params.step_mode=busy", "env.rows=1", "rollout.length=1",
                       "trainer.super_batch=" + std::to_string(workers), "trainer.minibatches=1",
                       "stats.interval_ms=100", "network.heartbeat_ms=100", "network.peer_timeout_ms=300"}));
    REQUIRE(eventually([&] { return !json_of(at + "/endpoints.json").is_null(); }));
    const auto worker =
        start("worker", json_of(at + "/endpoints.json").at("workers"), {"--count", std::to_string(workers)});
    REQUIRE(eventually([&] { return log_count(at, " connected from") >= workers; }));
    REQUIRE(eventually([&] { return updates_of(at) >= 2 || log_count(at, " ended: ") > 0; }));
    return log_count(at, " ended: ") == 0;
  }));
}

// While the first step of an environment takes 7 s, heartbeats are the only traffic.
TEST_CASE("joining: a worker does not give up a run that sends heartbeats rarely") {
  TempFolder folder;
  const std::string at = folder / "run";
  Process train(
      Words{"troupe", "train", "synthetic", "--run", at} + kRemoteOnly +
      set({"env.params.step_us=7000000", "env.params.step_mode=sleep", "env.rows=1", "rollout.length=1",
           "trainer.super_batch=1", "trainer.minibatches=1", "algorithm.normalize_advantages=false", "workers.groups=1",
           "stats.interval_ms=100", "network.heartbeat_ms=60000", "network.peer_timeout_ms=120000"}));
  REQUIRE(eventually([&] { return !json_of(at + "/endpoints.json").is_null(); }));
  const auto worker = start("worker", json_of(at + "/endpoints.json").at("workers"));
  CHECK(eventually([&] { return updates_of(at) >= 1; }));
  CHECK(worker->err() == "");
  train.signal(SIGKILL);
}
