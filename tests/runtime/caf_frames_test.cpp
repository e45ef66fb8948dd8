#include "runtime/caf_frames.h"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/make_message.hpp>
#include <caf/node_id.hpp>

#include "actors/messages.h"
#include "actors/network_messages.h"
#include "runtime/caf_system.h"
#include "tests/support/test.h"

namespace troupe {
namespace {

constexpr uint8_t kHandshake = 1, kDirect = 2, kRouted = 3, kMonitor = 4, kDown = 5, kHeartbeat = 6;

using Bytes = std::vector<char>;
using Host = caf::node_id::default_data::host_id_type;

struct Fixture {
  Fixture() {
    register_messages(config);
    configure(config, {.threads = 1, .network = true, .network_config = {}});  // only then does a process have a name
  }

  template <class... Values>
  Bytes bytes(const Values&... values) {
    Bytes result;
    caf::binary_serializer sink{system(), result};
    REQUIRE_FALSE(sink(values...));
    return result;
  }
  Bytes header(uint8_t operation, size_t length, uint64_t data = 0, uint64_t source = 0, uint64_t target = 0,
               uint8_t flags = 0) {
    return bytes(operation, uint8_t{0}, uint8_t{0}, flags, static_cast<uint32_t>(length), data, source, target);
  }
  caf::node_id node(uint8_t number) { return caf::make_node_id(7, Host{number}); }
  Bytes direct(const caf::message& message) { return bytes(std::vector<caf::strong_actor_ptr>{}, message); }

  std::string handshake() {
    if (std::string why = frames->check(header(kHandshake, 32)); !why.empty()) return why;
    return frames->check(bytes(node(1)));
  }
  // After a handshake.
  std::string send(const Bytes& head, const Bytes& payload) {
    frames.emplace(system(), messages_from_peers(), 1000);
    REQUIRE(handshake().empty());
    if (std::string why = frames->check(head); !why.empty()) return why;
    return frames->check(payload);
  }
  std::string send_direct(const Bytes& payload) { return send(header(kDirect, payload.size(), 0, 5, 9), payload); }

  caf::actor_system& system() {
    if (!running) running = std::make_unique<caf::actor_system>(config);
    return *running;
  }

  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> running;
  std::optional<FrameCheck> frames;
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "caf_frames: nothing but a whole handshake may come first") {
  const std::pair<Bytes, std::string> cases[] = {
      {header(kHandshake, 0), "malformed header"},
      {header(kHandshake, 31), "malformed header"},
      {header(kHandshake, 33), "a payload of 33 bytes for its handshake"},
      {header(kHandshake, 32, 1), "malformed header"},
      {header(kHandshake, 32, 0, 1), "malformed header"},
      {header(kHandshake, 32, 0, 0, 1), "malformed header"},
      {header(kHandshake, 32, 0, 0, 0, 1), "malformed header"},
      {header(0, 0, 4), "began with a server's handshake"},
      {header(kDirect, 10, 0, 1, 1), "began with a direct message"},
      {header(kHeartbeat, 0), "began with a heartbeat"},
      {header(7, 0), "does not speak the protocol"},
      {header('G', 0), "does not speak the protocol"},
  };
  for (const auto& [bytes, why] : cases) {
    frames.emplace(system(), messages_from_peers(), 1000);
    const std::string said = frames->check(bytes);
    CHECK_MESSAGE(said.find(why) != std::string::npos, said);
    CHECK_FALSE(frames->introduced());
  }
}

TEST_CASE_FIXTURE(Fixture, "caf_frames: a handshake names a process that is not this one") {
  const caf::node_id nodes[] = {{}, caf::make_node_id(0, Host{1}), caf::make_node_id(7, Host{}), system().node()};
  for (const caf::node_id& bad : nodes) {
    frames.emplace(system(), messages_from_peers(), 1000);
    REQUIRE(frames->check(header(kHandshake, 32)).empty());
    Bytes name = bytes(bad);
    name.resize(32);
    CHECK_FALSE(frames->check(name).empty());
    CHECK_FALSE(frames->introduced());
  }
  frames.emplace(system(), messages_from_peers(), 1000);
  CHECK(handshake().empty());
  CHECK(frames->introduced());
  CHECK(frames->check(header(kHandshake, 32, 0, 0, 0, 2)).empty());  // selects this connection
  CHECK(frames->check(bytes(node(2))) == "changed its name in a second handshake");
  frames.emplace(system(), messages_from_peers(), 1000);
  CHECK(handshake().empty());
  CHECK(handshake().empty());
  CHECK(handshake() == "repeated its handshake");
}

TEST_CASE_FIXTURE(Fixture, "caf_frames: what troupe's processes send passes") {
  CHECK(send(header(kHeartbeat, 0), header(kHeartbeat, 0)).empty());
  CHECK(send_direct(direct(caf::make_message(JoinRequest{2, "worker", "here", 1}))).empty());
  CHECK(send_direct(direct(caf::make_message(status_atom_v))).empty());
  CHECK(send_direct(direct(caf::make_message(ActRequest{}))).empty());
  CHECK(send_direct(direct(caf::make_message(RolloutMessage{std::make_shared<const Rollout>()}))).empty());
  CHECK(send_direct(direct(caf::make_message(make_error(caf::sec::runtime_error, "a", "b")))).empty());
  CHECK(send_direct(direct(caf::message{})).empty());
  const Bytes monitor = bytes(node(1), system().node());
  CHECK(send(header(kMonitor, monitor.size(), 0, 0, 9), monitor).empty());
  const Bytes down = bytes(node(1), system().node(), caf::error{caf::exit_reason::kill});
  CHECK(send(header(kDown, down.size(), 0, 9, 0), down).empty());
  const Bytes info = direct(caf::make_message(caf::sys_atom_v, caf::get_atom_v, std::string("info")));
  const auto server = static_cast<uint64_t>(caf::atom("SpawnServ"));
  CHECK(send(header(kDirect, info.size(), 0, 5, server, 1), info).empty());
}

TEST_CASE_FIXTURE(Fixture, "caf_frames: a message of another type, or in another name, is refused") {
  const caf::message others[] = {
      caf::make_message(std::string("text")),
      caf::make_message(caf::link_atom_v, caf::strong_actor_ptr{}),
      caf::make_message(beat_atom_v),
      caf::make_message(Stop{"no"}),
      caf::make_message(caf::exit_msg{{}, caf::exit_reason::kill}),
      caf::make_message(Pause{}, Pause{}),
      caf::make_message(caf::sys_atom_v, caf::get_atom_v, std::string("info")),  // not by name
  };
  for (const caf::message& other : others) CHECK_FALSE(send_direct(direct(other)).empty());
  const Bytes routed =
      bytes(node(2), system().node(), std::vector<caf::strong_actor_ptr>{}, caf::make_message(Pause{}));
  CHECK(send(header(kRouted, routed.size(), 0, 5, 9), routed) == "sent a message in another process's name");
  const Bytes pause = direct(caf::make_message(Pause{}));
  CHECK_FALSE(send(header(kDirect, pause.size(), 0, 5, 0), pause).empty());
  CHECK_FALSE(send(header(kDirect, pause.size(), 0, 5, 9, 1), pause).empty());  // by name
  CHECK_FALSE(send(header(kDirect, 1001, 0, 5, 9), pause).empty());
  CHECK_FALSE(send(header(kMonitor, 63, 0, 0, 9), pause).empty());
}

TEST_CASE_FIXTURE(Fixture, "caf_frames: a message that is cut, goes on, or lies about a length is refused") {
  const Bytes whole = direct(caf::make_message(JoinRequest{2, "worker", "here", 1}));
  for (size_t size = 1; size < whole.size(); ++size)
    CHECK_FALSE(send_direct({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)}).empty());
  Bytes longer = whole;
  longer.push_back(0);
  CHECK(send_direct(longer) == "sent a direct message with bytes after its end");
  Part part;
  part.data = Array(DType::u8, {4});
  Bytes huge = direct(caf::make_message(part));
  REQUIRE(send_direct(huge).empty());
  huge[huge.size() - 4 - 5] = 0x3f;  // the array claims a gigabyte
  CHECK_FALSE(send_direct(huge).empty());
}

}  // namespace troupe
