// Traffic at the ports of a run and of a node that does not come from troupe.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "tests/process/peer.h"
#include "tests/process/raw_connection.h"
#include "tests/process/train_process.h"
#include "tests/support/sanitized.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr uint64_t kMuchMemory = uint64_t{1} << 30;  // a run of this size needs a fifth of that

const Words kEndless = set({"stop.env_steps=0", "stop.updates=1000000"});

// The inodes of the sockets that a process has. Its other descriptors may be files that it only reads for a moment.
std::set<std::string> sockets_of(const Process& process) {
  std::set<std::string> sockets;
  std::error_code gone;  // set if the descriptor was closed in the meantime
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process.id()) + "/fd")) {
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!gone && target.starts_with("socket:[")) sockets.insert(target.substr(8, target.size() - 9));
  }
  return sockets;
}

// The ports of the loopback interface on which a process listens.
std::set<uint16_t> ports_of(const Process& process) {
  const std::set<std::string> sockets = sockets_of(process);
  std::set<uint16_t> ports;
  std::istringstream table(text_of("/proc/net/tcp"));
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string word, local, state, inode;
    fields >> word >> local >> word >> state;
    for (int skipped = 4; skipped < 9; ++skipped) fields >> word;
    fields >> inode;
    constexpr const char* kListening = "0A";
    if (state == kListening && sockets.contains(inode))
      ports.insert(static_cast<uint16_t>(std::stoul(local.substr(local.find(':') + 1), nullptr, 16)));
  }
  return ports;
}

// The first bytes that a client of the c10d store sends.
std::string store_client(uint8_t query, uint64_t length) {
  std::string bytes("\0\xce\xf7\x85\x3c", 5);
  bytes += static_cast<char>(query);
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
  return bytes + std::string(200, 'x');
}

}  // namespace

TEST_CASE("ports: garbage at the ports of the weight transfer neither stops the run nor fills its console") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless + set({"inference.count=0", "replay.max_policy_lag=4"}));
  Process inference({"troupe", "inference", "--connect", run.workers_at()});
  REQUIRE(run.makes_updates());
  std::set<uint16_t> ports = ports_of(run.process());
  CHECK(ports.erase(port_of(run.workers_at())) == 1);
  CHECK(ports.erase(port_of(run.stats_at())) == 1);
  REQUIRE(!ports.empty());
  ports.merge(ports_of(inference));
  for (const uint16_t port : ports) {
    const std::string address = "127.0.0.1:" + std::to_string(port);
    CAPTURE(address);
    for (uint32_t seed = 0; seed < 10; ++seed) Client(address).send(random_bytes(500, seed));
    for (uint8_t query = 0; query < 16; ++query)
      for (const uint64_t length : {uint64_t{5}, uint64_t{1} << 31, uint64_t{1} << 62})
        Client(address).send(store_client(query, length));
    Client(address).send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    Client(address).reset();
    CHECK(run.makes_updates());
  }
  for (Process* process : {&run.process(), &inference}) {
    const std::string err = process->err();
    CAPTURE(err);
    CHECK(std::ranges::count(err, '\n') <= 5);
    for (const char* noise : {"c10d", "frame #", "Exception raised", "TCPStore"}) CHECK(!has(err, noise));
  }
  inference.signal(SIGKILL);  // a real loss is still reported
  CHECK(eventually([&] { return has(run.process().err(), "inference process 0 is gone"); }));
  CHECK(run.interrupt().value_or(-1) == 130);
}

TEST_CASE("ports: garbage, silent connections and floods neither stop a run nor cost it a worker or much memory") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless + set({"workers.count=0", "replay.max_policy_lag=4"}));
  const auto worker = start_worker(run.workers_at());
  REQUIRE(run.makes_updates());
  const uint64_t before = run.process().peak_resident_bytes();
  std::vector<Client> silent;
  for (const std::string& address : {run.workers_at(), run.stats_at()}) {
    CAPTURE(address);
    for (int i = 0; i < 200; ++i) silent.emplace_back(address);
    for (uint32_t seed = 0; seed < 20; ++seed) Client(address).send(random_bytes(10'000, seed));
    Client(address).send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    Client(address).send(caf_header(kClientHandshake, 100, 1).substr(0, 17));
    Client(address).send(caf_header(kClientHandshake, 100'000, 1) + random_bytes(1000, 7));
    for (int operation = 0; operation < 12; ++operation)
      Client(address).send(caf_header(static_cast<uint8_t>(operation), 64, 3) + random_bytes(10'000, 8));
    CHECK(run.makes_updates());
  }
  const auto late = start_worker(run.workers_at());
  CHECK(eventually([&] { return log_count(run.folder(), " connected from") == 2; }));
  CHECK(run.makes_updates());
  CHECK(!log_has(run.folder(), " ended: "));  // no worker was lost
  CHECK(run.process().peak_resident_bytes() < before + (256 << 20));
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(balances(run.summary().at("ledger")));
  CHECK(worker->wait().value_or(-1) == 0);
  CHECK(late->wait().value_or(-1) == 0);
}

TEST_CASE("ports: no header of a CAF message ends a run or a node, whatever its operation, length and data") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless);
  REQUIRE(run.makes_updates());
  NodeProcess node;
  Client(run.workers_at()).send(caf_header(kClientHandshake, 0, 0));
  CHECK(eventually([&] { return log_has(run.folder(), " is closed: it sent a handshake with a malformed header"); }));
  for (const std::string& address : {run.workers_at(), node.address()})
    for (const uint8_t operation : {0, 1, 2, 3, 4, 5, 6, 7, 9, 255})
      for (const uint32_t length : {0U, 1U, 31U, 32U, 1000U, 65536U, 1U << 31, 0xffffffffU})
        for (const uint64_t data : {uint64_t{0}, uint64_t{1}, uint64_t{4}, ~uint64_t{0}}) {
          CAPTURE(address);
          CAPTURE(operation);
          CAPTURE(length);
          CAPTURE(data);
          Client client(address);
          REQUIRE(client.connected());
          client.send(caf_header(operation, length, data) + std::string(std::min(length, 64U), '\0'));
        }
  CHECK(run.makes_updates());
  CHECK(!node.process().exit_code());
  CHECK(log_has(run.folder(), "is closed: it began with a server's handshake instead of its handshake"));
  CHECK(log_count(run.folder(), " is closed: ") < 100);  // a flood does not fill the log
  CHECK(run.interrupt().value_or(-1) == 130);
}

TEST_CASE("ports: the descriptors of connections that are reset or stay silent are closed") {
  NodeProcess node;
  const std::set<std::string> before = sockets_of(node.process());
  std::vector<Client> silent;
  for (int i = 0; i < 50; ++i) {
    Client(node.address()).reset();
    silent.emplace_back(node.address());
  }
  for (Client& client : silent) CHECK(client.is_closed());  // the node closes it after ten seconds of silence
  CHECK(eventually([&] { return sockets_of(node.process()) == before; }));
}

TEST_CASE("ports: an address on which a program cannot listen is refused with the reason") {
  const Server taken("");
  const std::string taken_port = std::to_string(port_of(taken.address()));
  TempFolder folder;
  const std::pair<std::string, std::string> cases[] = {
      {"nosuch.invalid:1", "the host name cannot be resolved"},
      {"192.0.2.1:0", "this machine has no such address"},
      {"127.0.0.1:" + taken_port, "another program listens on this port"},
  };
  for (const auto& [address, why] : cases) {
    CAPTURE(address);
    const std::string text = address + ": cannot listen: " + why;
    check_refused(CommandLine({"troupe", "node", "--listen", address}), "--listen " + text);
    check_refused(CommandLine(train_line(folder / "run", {"--listen", address})), "--listen " + text);
    check_refused(CommandLine(train_line(folder / "run", {"--stats", address})), "--stats " + text);
  }
}

TEST_CASE("ports: a header that announces a large payload closes its connection and allocates no memory for it") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless);
  REQUIRE(run.makes_updates());
  for (const uint32_t bytes : {0xffffffffU, 0x40000000U, 0x00100000U}) {
    for (const uint64_t version : {1, 2, 3, 4}) {
      Client client(run.workers_at());
      REQUIRE(client.connected());
      client.send(caf_header(kClientHandshake, bytes, version) + random_bytes(4096, bytes));
      CHECK(client.is_closed());
    }
  }
  CHECK(log_has(run.folder(), "announced a payload of 4294967295 bytes for its handshake; the limit is 32"));
  CHECK(run.makes_updates());
  CHECK(run.process().peak_resident_bytes() < kMuchMemory);
  CHECK(run.interrupt().value_or(-1) == 130);
}

TEST_CASE("ports: a node closes the connection of such a header too, and allocates no memory for it") {
  NodeProcess node;
  for (const uint64_t version : {1, 2, 3, 4}) {
    Client client(node.address());
    client.send(caf_header(kClientHandshake, 0xffffffffU, version));
    CHECK(client.is_closed());
  }
  if (!test::kSanitized) CHECK(node.process().peak_resident_bytes() < (64 << 20));
  CHECK(node.process().exit_code() == std::nullopt);
}

TEST_CASE("ports: a run serves its statistics on the same port after each start, unless another program has taken it") {
  TempFolder folder;
  const std::string at = folder / "run";
  std::string address;
  for (const int number : {SIGINT, SIGKILL, SIGTERM}) {
    TrainProcess run(at, kEndless);
    if (address.empty()) address = run.stats_at();
    CHECK(run.stats_at() == address);
    REQUIRE(run.makes_updates(1));
    run.process().signal(number);
    run.process().wait();
    std::filesystem::remove(at + "/endpoints.json");  // so that the next TrainProcess waits for its own
  }
  const TrainProcess other(folder / "other", kEndless + Words{"--stats", address});
  TrainProcess run(at, kEndless);
  CHECK(run.stats_at() != address);
  CHECK(log_has(at, "on which the last start of this run served its statistics, is taken"));
}
