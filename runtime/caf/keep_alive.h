#pragma once
// Heartbeats on the connection to one other process, as often as that process expects them. CAF has one interval and
// one timeout for all connections of an actor system, fixed when it starts; a process learns the run's
// interval only when it joins.

#include <chrono>
#include <cstdint>
#include <string>

#include <caf/actor.hpp>
#include <caf/actor_addr.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>

#include "runtime/caf/network_config.h"

namespace troupe {

// Three heartbeats within a timeout, so that one may be late.
std::chrono::milliseconds beat_interval(const NetworkConfig& network);

// Starts a broker that sends heartbeats to the process of `peer`, and closes the connection when nothing arrived
// for network.peer_timeout; actors that monitor an actor there are then told that it is gone. It ends with an
// exit message, and when `owner` ends. It runs on CAF's network thread, so that environments which keep the other
// threads busy do not delay it. Needs an actor system that is configured for the network.
caf::actor keep_alive(caf::actor_system& system, const caf::actor_addr& peer, const NetworkConfig& network,
                      const caf::strong_actor_ptr& owner);

// Closes this process's connections to this numeric address and port whose handshake is not complete. Otherwise CAF
// would wait for it at every later attempt to connect there.
void abandon_connects(caf::actor_system& system, const std::string& address, uint16_t port);

}  // namespace troupe
