#pragma once
// Listening for other processes. A connection is closed, with a line in the log, when its peer does not introduce
// itself in time or sends anything that CAF cannot handle or troupe does not need (runtime/caf/frames.h).

#include <chrono>
#include <cstdint>
#include <set>
#include <string>

#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>

#include "runtime/caf/frames.h"

namespace troupe {

struct ListenLimits {
  size_t message_bytes = 32 << 20;  // one message
  size_t buffer_bytes = 1 << 30;    // for the messages of all connections; CAF allocates each when its header arrives
  size_t connections = 4096;        // at once; at most half the files the process may open
  std::chrono::seconds introduction{10};
};

namespace detail {
uint16_t listen(caf::actor_system& system, const caf::strong_actor_ptr& actor, std::set<std::string> interface,
                const std::string& host, uint16_t port, const AcceptedMessages& messages, const ListenLimits& limits);
}

// Publishes an actor and returns the port, which the system chooses when `port` is 0. `messages` are what peers may
// send; they must outlive the actor system. Throws ConfigError with the reason when it cannot listen. Undone by
// middleman().unpublish(). Needs an actor system that is configured for the network.
template <class Handle>
uint16_t listen(caf::actor_system& system, const Handle& actor, const std::string& host, uint16_t port,
                const AcceptedMessages& messages, const ListenLimits& limits = {}) {
  return detail::listen(system, caf::actor_cast<caf::strong_actor_ptr>(actor),
                        system.message_types(caf::detail::type_list<Handle>{}), host, port, messages, limits);
}

}  // namespace troupe
