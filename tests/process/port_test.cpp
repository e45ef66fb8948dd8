// What comes to the ports of a run that is not troupe, and what troupe says to ports that are not a run's.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <thread>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages.h"
#include "actors/network_messages.h"
#include "runtime/caf_listen.h"
#include "runtime/caf_system.h"
#include "tests/process/train_process.h"
#include "tests/support/test.h"

namespace troupe::test {
namespace {

constexpr uint64_t kMuchMemory = uint64_t{1} << 30;  // a run of this size needs a fifth of it

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

const Words kEndless = set({"stop.env_steps=0", "stop.updates=1000000"});

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

uint16_t port_of(const std::string& address) {
  return static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A raw connection; closed at the end.
class Client {
 public:
  explicit Client(const std::string& address) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in to = loopback(port_of(address));
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  Client(Client&& other) noexcept : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_) {}
  ~Client() {
    if (socket_ >= 0) ::close(socket_);
  }
  bool connected() const { return connected_; }
  void reset() {
    const linger now{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    ::close(std::exchange(socket_, -1));
  }
  // Stops early when the other side closes.
  void send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t count = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<size_t>(count);
    }
  }
  // Whether the other side closes the connection before the deadline.
  bool is_closed() {
    for (char buffer[4096];;) {
      pollfd ready{socket_, POLLIN, 0};
      if (::poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) <= 0) return false;
      if (::recv(socket_, buffer, sizeof buffer, 0) <= 0) return true;
    }
  }

 private:
  int socket_;
  bool connected_ = false;
};

// Accepts connections, sends each one a text, and says nothing more.
class Server {
 public:
  explicit Server(std::string text)
      : text_(std::move(text)), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(socket_, 8) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("cannot listen");
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    for (int client : clients_) ::close(client);
    ::close(socket_);
  }
  const std::string& address() const { return address_; }

 private:
  void serve() {
    for (int client; (client = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; clients_.push_back(client))
      if (::send(client, text_.data(), text_.size(), MSG_NOSIGNAL) < 0) continue;
  }
  std::string text_, address_;
  int socket_;
  std::vector<int> clients_;
  std::thread thread_;
};

// The 32 bytes that begin a message between CAF nodes.
std::string caf_header(uint8_t operation, uint32_t payload_bytes, uint64_t data) {
  std::string header(32, '\0');
  header[0] = static_cast<char>(operation);
  for (int i = 0; i < 4; ++i) header[4 + static_cast<size_t>(i)] = static_cast<char>(payload_bytes >> (24 - 8 * i));
  for (int i = 0; i < 8; ++i) header[8 + static_cast<size_t>(i)] = static_cast<char>(data >> (56 - 8 * i));
  return header;
}

constexpr uint8_t kClientHandshake = 1;

std::string random_bytes(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(generator());
  return bytes;
}

// One line on stderr that holds `part`, exit code 2.
void check_refused(const CommandLine& line, const std::string& part) {
  CAPTURE(line.err);
  CHECK(line.exit_code == 2);
  CHECK(std::count(line.err.begin(), line.err.end(), '\n') == 1);
  CHECK(has(line.err, part));
}

// The actor system of a peer in this process.
struct Peer {
  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;
  Peer() {
    register_messages(config);
    configure(config, {.threads = 1, .network = true, .network_config = {}});
    system = std::make_unique<caf::actor_system>(config);
  }
};

}  // namespace

TEST_CASE("ports: garbage, silence and floods cost a run nothing") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless + set({"workers.count=0", "replay.max_policy_lag=4"}));
  const auto worker = start_worker(run.workers_at());
  REQUIRE(run.goes_on());
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
    CHECK(run.goes_on());
  }
  const auto late = start_worker(run.workers_at());
  CHECK(eventually([&] { return log_count(run.folder(), " joined from") == 2; }));
  CHECK(run.goes_on());
  CHECK(!log_has(run.folder(), " ended: "));  // no worker was lost
  CHECK(run.process().peak_resident_bytes() < before + (256 << 20));
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(balances(run.summary().at("ledger")));
  CHECK(worker->wait().value_or(-1) == 0);
  CHECK(late->wait().value_or(-1) == 0);
}

TEST_CASE("ports: no header ends a run or a node, whatever its operation, length and data") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless);
  REQUIRE(run.goes_on());
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
  CHECK(run.goes_on());
  CHECK(!node.process().exit_code());
  CHECK(log_has(run.folder(), "is closed: it began with a server's handshake instead of its handshake"));
  CHECK(log_count(run.folder(), " is closed: ") < 100);  // a flood does not fill the log
  CHECK(run.interrupt().value_or(-1) == 130);
}

TEST_CASE("ports: connections that are reset or silent give their descriptors back") {
  NodeProcess node;
  const auto descriptors = [&] {
    return std::distance(std::filesystem::directory_iterator("/proc/" + std::to_string(node.process().id()) + "/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto before = descriptors();
  std::vector<Client> silent;
  for (int i = 0; i < 50; ++i) {
    Client(node.address()).reset();
    silent.emplace_back(node.address());
  }
  for (Client& client : silent) CHECK(client.is_closed());  // ten seconds after it connected
  CHECK(eventually([&] { return descriptors() == before; }));
}

TEST_CASE("ports: what cannot be listened on is told in plain words") {
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

TEST_CASE("ports: a header that announces gigabytes closes its connection and takes no memory") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless);
  REQUIRE(run.goes_on());
  for (const uint32_t bytes : {0xffffffffU, 0x40000000U, 0x00100000U}) {
    for (const uint64_t version : {1, 2, 3, 4}) {
      Client client(run.workers_at());
      REQUIRE(client.connected());
      client.send(caf_header(kClientHandshake, bytes, version) + random_bytes(4096, bytes));
      CHECK(client.is_closed());
    }
  }
  CHECK(log_has(run.folder(), "announced a payload of 4294967295 bytes for its handshake; the limit is 32"));
  CHECK(run.goes_on());
  CHECK(run.process().peak_resident_bytes() < kMuchMemory);
  CHECK(run.interrupt().value_or(-1) == 130);
}

TEST_CASE("ports: a node withstands the same header") {
  NodeProcess node;
  for (const uint64_t version : {1, 2, 3, 4}) {
    Client client(node.address());
    client.send(caf_header(kClientHandshake, 0xffffffffU, version));
    CHECK(client.is_closed());
  }
  CHECK(node.process().peak_resident_bytes() < (64 << 20));
  CHECK(node.process().exit_code() == std::nullopt);
}

TEST_CASE("ports: a peer with another protocol number is refused by the run") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless);
  REQUIRE(run.goes_on());  // before it begins, a run answers that it is not ready
  Peer peer;
  const auto gate = peer.system->middleman().remote_actor<GateActor>("127.0.0.1", port_of(run.workers_at()));
  REQUIRE(gate);
  std::string answer;
  caf::scoped_actor self(*peer.system);
  self->request(*gate, kPatience, JoinRequest{kProtocolVersion + 1, "worker", "here", 1})
      .receive([&](const Welcome&) { answer = "welcome"; }, [&](const caf::error& error) { answer = describe(error); });
  CHECK(has(answer, "the run speaks protocol " + std::to_string(kProtocolVersion) + ", the worker " +
                        std::to_string(kProtocolVersion + 1)));
  CHECK(run.interrupt().value_or(-1) == 130);
}

TEST_CASE("ports: messages whose sender is gone end nothing") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless);
  REQUIRE(run.goes_on());  // before it begins, a run answers that it is not ready
  Peer peer;
  const auto gate = peer.system->middleman().remote_actor<GateActor>("127.0.0.1", port_of(run.workers_at()));
  REQUIRE(gate);
  std::optional<Welcome> welcome;
  caf::scoped_actor self(*peer.system);
  const JoinRequest request{kProtocolVersion, "worker", "here", 1};
  caf::anon_send(*gate, request);
  self->request(*gate, kPatience, request).receive([&](const Welcome& w) { welcome = w; }, [](const caf::error&) {});
  REQUIRE(welcome.has_value());
  caf::anon_send(welcome->inference, ActRequest{});
  caf::anon_send(welcome->replay, WorkerHello{7, 1, 128});
  caf::anon_send(welcome->replay, Applied{9, {}});
  std::string state;  // answered after those above, on the same connection
  self->request(*gate, kPatience, status_atom_v)
      .receive([&](const StatusReply& r) { state = r.state; }, [](const caf::error&) {});
  CHECK(state == "running");
  CHECK(run.goes_on());
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(!has(run.process().err(), "ended:"));
}

namespace {

GateActor::behavior_type unwelcoming_gate(GateActor::pointer) {
  return {[](const JoinRequest&) -> caf::result<Welcome> { return make_error(Fault::bad_message, "another protocol"); },
          [](const ServeRequest&) {}, [](const Serving&) {}, [](status_atom) { return StatusReply{}; }};
}

CommandLine worker_to(const std::string& address) {
  return CommandLine({"troupe", "worker", "--connect", address, "--wait", "0"});
}

}  // namespace

TEST_CASE("worker: what is not a run is told in one line") {
  TempFolder folder;
  const Server mute(""), web("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  check_refused(worker_to("127.0.0.1:1"), "127.0.0.1:1: cannot connect");
  check_refused(worker_to("no.such.host.invalid:5"), "no.such.host.invalid:5: cannot connect");
  check_refused(worker_to(mute.address()), mute.address() + ": cannot connect");
  check_refused(worker_to(web.address()), web.address() + ": cannot connect");
  TrainProcess run(folder / "run", kEndless);
  check_refused(worker_to(run.stats_at()), run.stats_at() + ": cannot connect");
  CHECK(run.interrupt().value_or(-1) == 130);
}

TEST_CASE("worker: a node, and a run that refuses it, are told in one line") {
  NodeProcess node;
  check_refused(worker_to(node.address()), node.address() + ": another program, or another version of troupe");

  Peer peer;
  const GateActor gate = peer.system->spawn(unwelcoming_gate);
  const uint16_t port = listen(*peer.system, gate, "127.0.0.1", 0, messages_from_peers());
  check_refused(worker_to("127.0.0.1:" + std::to_string(port)), "the run refuses");
  peer.system->middleman().unpublish(caf::actor_cast<caf::actor>(gate), port);
  caf::anon_send_exit(gate,
                      caf::exit_reason::user_shutdown);  // the registry may hold it still, and the system waits for it
}

}  // namespace troupe::test
