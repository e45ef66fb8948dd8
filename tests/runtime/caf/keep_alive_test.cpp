#include "runtime/caf/keep_alive.h"

#include <chrono>
#include <thread>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/io/middleman.hpp>

#include "runtime/caf/system.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using namespace std::chrono_literals;

// CAF does not report when an actor is freed, so this polls.
bool freed(const caf::actor_addr& address) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (caf::actor_cast<caf::strong_actor_ptr>(address)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

}  // namespace

TEST_CASE("keep_alive: a keep-alive actor that has ended is freed although a beat is pending") {
  caf::actor_system_config config;
  configure(config, {.threads = 1, .network = true, .network_config = {}});
  caf::actor_system system(config);
  const caf::actor owner = system.spawn([](caf::event_based_actor*) -> caf::behavior { return {[](int) {}}; });
  NetworkConfig network;
  network.heartbeat = 20ms;
  network.peer_timeout = 100ms;
  for (const bool by_owner : {false, true}) {
    CAPTURE(by_owner);
    caf::actor keep = keep_alive(system, owner.address(), network, caf::actor_cast<caf::strong_actor_ptr>(owner));
    const caf::actor_addr address = keep.address();
    if (!by_owner) caf::anon_send_exit(keep, caf::exit_reason::user_shutdown);
    if (by_owner) caf::anon_send_exit(owner, caf::exit_reason::user_shutdown);
    keep = nullptr;
    CHECK(freed(address));
  }
}
