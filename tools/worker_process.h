#pragma once
// What `troupe worker` and `troupe node` share: an actor system that can reach other processes, and waiting for its end.

#include <csignal>
#include <functional>
#include <string>

#include <caf/actor_system.hpp>

#include "actors/wiring.h"

namespace troupe {

// Environments for a run's config (JSON), without policies. Throws ConfigError.
WiringPtr worker_wiring(const std::string& config);

// Runs `body` with an actor system on the network, whose actors share `threads` threads, and the signals of Ctrl-C blocked in
// all of them.
int with_network(size_t threads, const std::function<int(caf::actor_system&)>& body);

// Threads for so many workers: never more than the machine has.
size_t threads_for(size_t workers);

// Blocks until Ctrl-C (returns true) or wake_up() (false). A second Ctrl-C ends the process.
bool wait_for_signal();
void wake_up();

}  // namespace troupe
