#include "runtime/caf/listen.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <future>

#include <caf/actor_system_config.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/node_id.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages.h"
#include "actors/network_messages.h"
#include "runtime/base/descriptor.h"
#include "runtime/base/process_stats.h"
#include "runtime/caf/broker.h"
#include "runtime/caf/system.h"
#include "tests/process/raw_connection.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

NodeActor::behavior_type idle_node(NodeActor::pointer) {
  return {[](const SpawnRequest&) { return uint32_t{0}; }};
}

// A listening actor system.
struct Listening {
  Listening() {
    register_messages(config);
    configure(config, {.threads = 1, .network = true, .network_config = {}});
    system = std::make_unique<caf::actor_system>(config);
    actor = system->spawn(idle_node);
    port = listen(*system, actor, "127.0.0.1", 0, messages_to_node());
  }
  ~Listening() {
    system->middleman().unpublish(caf::actor_cast<caf::actor>(actor), port);
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    actor = nullptr;
  }

  // The number of other processes about which CAF keeps data.
  size_t known_processes() {
    std::promise<size_t> known;
    system->middleman().backend().post(
        [&, broker = broker_of(*system)] { known.set_value(running(broker)->spawn_servers.size()); });
    return known.get_future().get();
  }
  // A connection with the handshake of a process with this number.
  Client peer(uint32_t number) {
    std::vector<char> name;
    caf::binary_serializer sink{*system, name};
    caf::node_id node = caf::make_node_id(number, caf::node_id::default_data::host_id_type{1});
    REQUIRE_FALSE(sink(node));
    Client client("127.0.0.1:" + std::to_string(port));
    client.send(caf_header(kClientHandshake, static_cast<uint32_t>(name.size()), 0) +
                std::string(name.begin(), name.end()));
    return client;
  }

  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;
  NodeActor actor;
  uint16_t port = 0;
};

}  // namespace

TEST_CASE("caf_listen: no data is kept about processes whose connections have ended") {
  Listening listening;
  std::vector<Client> open;
  for (uint32_t number = 1; number <= 200; ++number) open.push_back(listening.peer(number));
  CHECK(eventually([&] { return listening.known_processes() == 200; }));
  while (open.size() > 1) open.pop_back();
  CHECK(eventually([&] { return listening.known_processes() == 1; }));
  open.push_back(listening.peer(2));  // a process that was gone connects again
  CHECK(eventually([&] { return listening.known_processes() == 2; }));
  open.clear();
  CHECK(eventually([&] { return listening.known_processes() == 0; }));
}

TEST_CASE("caf_listen: a connection for which no file descriptor is left is closed, and later ones are served") {
  Listening listening;
  const std::string address = "127.0.0.1:" + std::to_string(listening.port);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit low{200, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  std::vector<Descriptor> all;
  for (int file; (file = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) all.emplace_back(file);
  for (int i = 0; i < 3; ++i) {
    all.pop_back();  // frees a descriptor for the client; none is left for the listening side
    Client client(address);
    CHECK(client.connected());
    CHECK(client.is_closed());
    all.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  all.clear();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  const Client served = listening.peer(1);
  CHECK(eventually([&] { return listening.known_processes() == 1; }));
}

TEST_CASE("caf_listen: a connection right after one that has ended is not confused with it") {
  constexpr uint32_t kPeers = 300;
  Listening listening;
  const std::string address = "127.0.0.1:" + std::to_string(listening.port);
  std::vector<Client> open;
  for (uint32_t number = 1; number <= kPeers; ++number) {
    Client(address).send("x");  // ends before its handshake
    open.push_back(listening.peer(number));
  }
  open.push_back(listening.peer(kPeers + 1));
  CHECK(eventually([&] { return listening.known_processes() == kPeers + 1; }));
  open.pop_back();  // its end also removes the data about all processes without a connection
  CHECK(eventually([&] { return listening.known_processes() == kPeers; }));
}

TEST_CASE("caf_listen: memory for announced messages goes back to the system when their connections end") {
  constexpr uint8_t kDirectMessage = 2;
  constexpr uint32_t kAnnounced = 17'000'000, kPeers = 20;
  Listening listening;
  std::string header = caf_header(kDirectMessage, kAnnounced, 1);
  header.back() = 6;  // number of the receiver
  const uint64_t before = resident_bytes();
  // The second time, the allocator keeps what it frees unless it is told not to.
  for (uint32_t wave = 0; wave < 2; ++wave) {
    std::vector<Client> open;
    for (uint32_t i = 0; i < kPeers; ++i) {
      open.push_back(listening.peer(wave * kPeers + i + 1));
      open.back().send(header + "begin");
    }
    CHECK(eventually([&] { return resident_bytes() > before + uint64_t{kPeers} * kAnnounced / 2; }));
    open.clear();
    CHECK(eventually([&] { return resident_bytes() < before + 2 * uint64_t{kAnnounced}; }));
  }
}
