#include "runtime/caf/keep_alive.h"

#include <algorithm>
#include <vector>

#include <caf/io/broker.hpp>
#include <caf/io/network/multiplexer.hpp>
#include <caf/stateful_actor.hpp>

#include "runtime/caf/broker.h"

namespace troupe {

namespace {

using caf::io::basp_broker;

void drop(basp_broker& broker, caf::io::connection_handle connection) {
  broker.connection_cleanup(connection, caf::sec::connection_timeout);
  broker.close(connection);
}

struct KeepAlive {
  static inline const char* name = "keep alive";
};

// A tick without a sender. CAF does not empty the mailbox of a broker that has ended, so a tick from the broker itself
// would keep it in memory forever. CAF's delayed_anon_send() sets the sender nevertheless.
void tick_after(caf::io::broker* self, std::chrono::milliseconds interval) {
  self->clock().schedule_message(self->clock().now() + interval, self->ctrl(),
                                 caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, caf::tick_atom::value));
}

caf::behavior beating(caf::stateful_actor<KeepAlive, caf::io::broker>* self, const caf::strong_actor_ptr& connections,
                      const caf::node_id& peer, const NetworkConfig& network, const caf::strong_actor_ptr& owner) {
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  self->monitor(caf::actor_cast<caf::actor>(owner));
  caf::anon_send(caf::actor(self), caf::tick_atom::value);
  return {[=](caf::tick_atom) {
    tick_after(self, beat_interval(network));
    basp_broker* const broker = running(connections);
    if (broker == nullptr) return;
    const auto connection = broker->instance.tbl().lookup_direct(peer);
    if (!connection) return;
    if (self->clock().now() > broker->ctx[*connection].last_seen + network.peer_timeout)
      return drop(*broker, *connection);
    broker->instance.write_heartbeat(self->context(), broker->get_buffer(*connection));
    broker->flush(*connection);
  }};
}

}  // namespace

std::chrono::milliseconds beat_interval(const NetworkConfig& network) {
  return std::max(std::chrono::milliseconds(1), std::min(network.heartbeat, network.peer_timeout / 3));
}

caf::actor keep_alive(caf::actor_system& system, const caf::actor_addr& peer, const NetworkConfig& network,
                      const caf::strong_actor_ptr& owner) {
  return system.middleman().spawn_broker(beating, broker_of(system), peer.node(), network, owner);
}

void abandon_connects(caf::actor_system& system, const std::string& address, uint16_t port) {
  system.middleman().backend().post([connections = broker_of(system), address, port] {
    basp_broker* const broker = running(connections);
    if (broker == nullptr) return;
    std::vector<caf::io::connection_handle> waiting;
    for (const auto& [connection, context] : broker->ctx)
      if (context.callback && broker->remote_port(connection) == port && broker->remote_addr(connection) == address)
        waiting.push_back(connection);
    for (const auto& connection : waiting) drop(*broker, connection);
  });
}

}  // namespace troupe
