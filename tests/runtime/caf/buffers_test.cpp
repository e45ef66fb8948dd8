// How much memory connections to a port can make a process allocate, tested with raw sockets.
#include "runtime/caf/listen.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/io/basp/message_type.hpp>
#include <caf/io/middleman.hpp>
#include <caf/node_id.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/base/descriptor.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "runtime/caf/owned_system.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using Published = caf::typed_actor<caf::reacts_to<caf::tick_atom>>;

Published::behavior_type published(Published::pointer) {
  return {[](caf::tick_atom) {}};
}

void append_big_endian(std::string& bytes, uint64_t value, int size) {
  for (int i = size - 1; i >= 0; --i) bytes += static_cast<char>(value >> (8 * i));
}

std::string header(caf::io::basp::message_type operation, uint32_t payload_bytes, uint64_t target) {
  std::string bytes{static_cast<char>(operation), 0, 0, 0};
  append_big_endian(bytes, payload_bytes, 4);
  append_big_endian(bytes, 0, 8);
  append_big_endian(bytes, 0, 8);
  append_big_endian(bytes, target, 8);
  return bytes;
}

// A raw connection that sends the handshake of a new process and can announce a message.
class RawPeer {
 public:
  RawPeer(uint16_t port, uint32_t process) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket_.number(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
    std::string node;
    append_big_endian(node, static_cast<uint64_t>(caf::node_id::default_data::class_id), 8);
    append_big_endian(node, process, 4);
    node += std::string(20, 'h');
    send(header(caf::io::basp::message_type::client_handshake, static_cast<uint32_t>(node.size()), 0) + node);
  }
  void announce(uint32_t payload_bytes) { send(header(caf::io::basp::message_type::direct_message, payload_bytes, 1)); }
  // Sends an invalid payload, which closes the connection once it is complete. The other side may close it earlier.
  void send_payload(size_t bytes) const {
    const std::string payload(bytes, '\0');
    [[maybe_unused]] const ssize_t sent = ::send(socket_.number(), payload.data(), payload.size(), MSG_NOSIGNAL);
  }
  // Whether the other side closes the connection before the deadline.
  bool is_closed(std::chrono::milliseconds deadline) const {
    for (char buffer[4096];;) {
      pollfd ready{socket_.number(), POLLIN, 0};
      if (::poll(&ready, 1, static_cast<int>(deadline.count())) <= 0) return false;
      if (::recv(socket_.number(), buffer, sizeof buffer, 0) <= 0) return true;
    }
  }

 private:
  void send(const std::string& bytes) const {
    REQUIRE(::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  }
  Descriptor socket_;
};

}  // namespace

TEST_CASE(
    "caf_listen: the announced bytes of all connections are limited, and a connection that ends frees its bytes") {
  MemoryDisk log;
  open_log(log.open_append("log"), {.to_stderr = false});
  static const AcceptedMessages none;  // outlives the actor system
  {
    OwnedSystem owned({.threads = 1, .network = true, .network_config = {}}, [](caf::actor_system_config&) {});
    const Published actor = owned.get().spawn(published);
    const uint16_t port =
        listen(owned.get(), actor, "127.0.0.1", 0, none, {.message_bytes = 1000, .buffer_bytes = 2500});
    constexpr std::chrono::seconds kPatience{60};
    {
      RawPeer too_much(port, 1);
      too_much.announce(1001);
      CHECK(too_much.is_closed(kPatience));
      std::vector<RawPeer> peers;
      for (uint32_t i = 2; i < 5; ++i) {
        peers.emplace_back(port, i);
        peers.back().announce(1000);
      }
      // The three headers are read in any order. The last one that is read exceeds the limit.
      const auto end = std::chrono::steady_clock::now() + kPatience;
      int closed = 0;
      while (closed == 0 && std::chrono::steady_clock::now() < end)
        for (const RawPeer& peer : peers) closed += peer.is_closed(std::chrono::milliseconds(10)) ? 1 : 0;
      CHECK(closed == 1);
    }
    // As long as the ends of the other connections are not noticed, a new peer is closed at its announcement. After
    // that it is closed at its invalid payload.
    uint32_t process = 100;
    const auto accepted = [&] {
      RawPeer peer(port, process++);
      peer.announce(1000);
      peer.send_payload(1000);
      REQUIRE(peer.is_closed(kPatience));
      return log.read("log").find("it sent ") != std::string::npos;
    };
    const auto end = std::chrono::steady_clock::now() + kPatience;
    bool again = false;
    while (!again && std::chrono::steady_clock::now() < end) again = accepted();
    CHECK(again);
    owned.get().middleman().unpublish(caf::actor_cast<caf::actor>(actor), port);
    caf::anon_send_exit(actor, caf::exit_reason::kill);
  }
  close_log();
}
