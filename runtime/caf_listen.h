#pragma once
// Listening for other processes. CAF believes the length that a peer announces and makes room for it, 4 GiB at the word of 32
// bytes; here a length beyond a limit closes the connection, and so does a peer that does not introduce itself in time.

#include <chrono>
#include <cstdint>
#include <set>
#include <string>

#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>

namespace troupe {

struct ListenLimits {
  size_t introduction_bytes = 64 << 10;  // the first message of a peer
  size_t message_bytes = 256 << 20;      // any later one
  size_t connections = 4096;             // at once; at most half the files the process may open
  std::chrono::seconds introduction{10};
};

namespace detail {
uint16_t listen(caf::actor_system& system, const caf::strong_actor_ptr& actor, std::set<std::string> interface,
                const std::string& host, uint16_t port, const ListenLimits& limits);
}

// Publishes an actor; the port, which the system chooses when `port` is 0. Throws ConfigError when the address is taken.
// Undone by middleman().unpublish(). Needs an actor system that is configured for the network.
template <class Handle>
uint16_t listen(caf::actor_system& system, const Handle& actor, const std::string& host, uint16_t port,
                const ListenLimits& limits = {}) {
  return detail::listen(system, caf::actor_cast<caf::strong_actor_ptr>(actor),
                        system.message_types(caf::detail::type_list<Handle>{}), host, port, limits);
}

}  // namespace troupe
