#pragma once
// What `troupe worker`, `node` and `inference` share: an actor system that can reach other processes.

#include <functional>
#include <string>

#include <caf/actor_system.hpp>

#include "actors/wiring.h"

namespace troupe {

// Environments for a run's config (JSON), without policies. Throws ConfigError.
WiringPtr worker_wiring(const std::string& config);

// Runs `body` with an actor system on the network, whose actors share `threads` threads.
int with_network(size_t threads, const std::function<int(caf::actor_system&)>& body);

// Threads for so many workers: never more than the machine has.
size_t threads_for(size_t workers);

}  // namespace troupe
