// `troupe node` runs each worker in a separate process. A crash ends one worker only, and no worker outlives the node.
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "runtime/base/descriptor.h"
#include "tests/process/children.h"
#include "tests/process/train_process.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// The lag cap is high enough for credits of several workers at once, even if the workers are slow.
const Words kRun =
    set({"workers.count=0", "stop.env_steps=0", "stop.updates=1000000", "replay.max_policy_lag=4", "trainer.epochs=1"});

std::set<pid_t> children_of(const NodeProcess& node) {
  return test::children_of(const_cast<NodeProcess&>(node).process().id());
}

// A run and a node whose workers have joined it.
struct Sampling {
  explicit Sampling(const std::string& folder, int workers) : run(folder, kRun) {
    REQUIRE(eventually([&] { return !metrics_of(run.folder()).is_null(); }));  // before that, a run refuses workers
    REQUIRE(node.spawn(workers, run.workers_at()).exit_code == 0);
    REQUIRE(eventually([&] { return joined() == static_cast<size_t>(workers); }));
  }
  size_t joined() const { return log_count(run.folder(), " connected from"); }

  TrainProcess run;
  NodeProcess node;
};

}  // namespace

TEST_CASE("node: an idle node has no child processes") {
  NodeProcess node;
  CHECK(children_of(node).empty());
}

TEST_CASE("node: each worker is a process; one that crashes is reported and replaced, the others keep running") {
  TempFolder folder;
  Sampling it(folder / "run", 3);
  const std::set<pid_t> before = children_of(it.node);
  REQUIRE(before.size() == 3);
  const pid_t victim = *before.begin();
  kill(victim, SIGABRT);
  CHECK(eventually([&] { return it.joined() == 4; }));
  CHECK(has(it.node.process().err(), "worker process " + std::to_string(victim) + " was killed by signal 6 (Aborted)"));
  const std::set<pid_t> after = children_of(it.node);
  CHECK(after.size() == 3);
  CHECK(!after.contains(victim));
  CHECK(std::ranges::count_if(after, [&](pid_t id) { return before.contains(id); }) == 2);
  CHECK(it.run.makes_updates());
  CHECK(it.run.interrupt().value_or(-1) == 130);
  CHECK(balances(it.run.summary().at("ledger")));
}

TEST_CASE("node: a worker that was ended with TERM is not replaced") {
  TempFolder folder;
  Sampling it(folder / "run", 2);
  kill(*children_of(it.node).begin(), SIGTERM);
  CHECK(eventually([&] { return children_of(it.node).size() == 1; }));
  CHECK(eventually([&] { return has(it.node.process().err(), "ended with exit code 130"); }));
  CHECK(it.run.makes_updates());
  CHECK(it.joined() == 2);
}

TEST_CASE("node: the workers end and are reaped when their run ends, and the node serves the next run") {
  TempFolder folder;
  Sampling it(folder / "run", 3);
  CHECK(it.run.interrupt().value_or(-1) == 130);
  CHECK(eventually([&] { return children_of(it.node).empty(); }));
  TrainProcess next(folder / "next", kRun);
  REQUIRE(eventually([&] { return !metrics_of(next.folder()).is_null(); }));
  CHECK(it.node.spawn(1, next.workers_at()).exit_code == 0);
  CHECK(next.makes_updates());
}

TEST_CASE("node: no worker outlives the node, whether KILL, TERM or INT ends it") {
  TempFolder folder;
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    CAPTURE(signal);
    Sampling it(folder / std::to_string(signal), 2);
    const std::set<pid_t> workers = children_of(it.node);
    it.node.process().signal(signal);
    CHECK(it.node.process().wait().value_or(-1) == (signal == SIGKILL ? 137 : 130));
    if (signal == SIGKILL)
      CHECK(eventually([&] { return all_gone(workers); }));
    else
      CHECK(all_gone(workers));
    const std::string gone = signal == SIGKILL ? " ended: " : " has left";
    CHECK(eventually([&] { return log_count(it.run.folder(), gone) == 2; }));
  }
}

TEST_CASE("node: a frozen worker is killed when the node ends") {
  TempFolder folder;
  Sampling it(folder / "run", 2);
  const std::set<pid_t> workers = children_of(it.node);
  kill(*workers.begin(), SIGSTOP);
  it.node.process().signal(SIGTERM);
  CHECK(it.node.process().wait().value_or(-1) == 130);
  CHECK(all_gone(workers));
}

TEST_CASE("node: the errors of spawn name the wrong address, that of the node or that of the run") {
  TempFolder folder;
  NodeProcess node;
  const CommandLine no_run = node.spawn(1, "127.0.0.1:1");
  CHECK(no_run.exit_code == 2);
  CHECK(no_run.err ==
        "troupe: --run 127.0.0.1:1: cannot connect: Connection refused (has the run started?); the node " +
            node.address() + " tried it\n");
  const CommandLine no_node({"troupe", "spawn", "--node", "127.0.0.1:1", "--workers", "1", "--run", "127.0.0.1:2"});
  CHECK(no_node.exit_code == 2);
  CHECK(no_node.err == "troupe: --node 127.0.0.1:1: cannot connect: Connection refused\n");
  const std::string nowhere = std::string(64, 'a') + ":1";  // too long for a host name: no name server is asked
  const CommandLine no_host({"troupe", "spawn", "--node", nowhere, "--workers", "1", "--run", "127.0.0.1:2"});
  CHECK(no_host.err.starts_with("troupe: --node " + nowhere + ": cannot connect: the host name cannot be resolved: "));
  TrainProcess run(folder / "run", kRun);
  const CommandLine not_a_node(
      {"troupe", "spawn", "--node", run.workers_at(), "--workers", "1", "--run", run.workers_at()});
  CHECK(not_a_node.err ==
        "troupe: --node " + run.workers_at() + ": a troupe process answers there, but it is not a `troupe node`\n");
}

TEST_CASE("node: what a worker writes appears on the node's stderr with the id of the worker's process") {
  TempFolder folder;
  Sampling it(folder / "run", 1);
  const pid_t worker = *children_of(it.node).begin();
  it.run.process().signal(SIGKILL);
  CHECK(eventually([&] { return has(it.node.process().err(), "worker process " + std::to_string(worker) + ": "); }));
}

TEST_CASE("node: 64 workers join one run") {
  TempFolder folder;
  Sampling it(folder / "run", 64);
  CHECK(children_of(it.node).size() == 64);
  CHECK(it.run.makes_updates());
  it.node.process().signal(SIGTERM);
  CHECK(it.node.process().wait().value_or(-1) == 130);
}

// An address that neither accepts nor refuses connections, because its queue is full.
class SilentAddress {
 public:
  SilentAddress() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener_.number(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener_.number(), 0) == 0);
    REQUIRE(::getsockname(listener_.number(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    text_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    for (bool connected = true; connected;) {
      Descriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (::connect(client.number(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        REQUIRE(errno == EINPROGRESS);
      pollfd ready{client.number(), POLLOUT, 0};
      connected = ::poll(&ready, 1, 200) == 1;
      clients_.push_back(std::move(client));
    }
  }
  const std::string& text() const { return text_; }

 private:
  Descriptor listener_;
  std::vector<Descriptor> clients_;
  std::string text_;
};

TEST_CASE("node: after an address that does not answer the node still starts workers for another run") {
  TempFolder folder;
  TrainProcess run(folder / "run", kRun);
  REQUIRE(eventually([&] { return !metrics_of(run.folder()).is_null(); }));
  NodeProcess node;
  const SilentAddress silent;
  const CommandLine refused = node.spawn(1, silent.text());
  CHECK(refused.exit_code == 2);
  CHECK(has(refused.err, silent.text() + ": cannot connect: no answer in time"));
  CHECK(node.spawn(1, run.workers_at()).exit_code == 0);
  CHECK(run.makes_updates());
}
