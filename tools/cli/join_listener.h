#pragma once
// Listens for workers and inference processes that join a run. Used by the main thread of `troupe train`.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include "actors/config/run_config.h"
#include "actors/join_server.h"
#include "actors/supervisor.h"
#include "runtime/caf/listen.h"
#include "tools/cli/address.h"

namespace troupe {

// The join server of a run, reachable over the network while this exists. Nothing outlives it, so that a start that
// fails ends at once.
class JoinListener {
 public:
  // Throws ConfigError when the address is taken.
  JoinListener(caf::actor_system& system, const Address& at, const ListenLimits& limits);
  ~JoinListener();
  JoinListener(const JoinListener&) = delete;
  JoinListener& operator=(const JoinListener&) = delete;

  const Address& address() const { return address_; }
  // From now on those who ask to join are passed to the supervisor.
  void lead_to(const SupervisorActor& supervisor) const;
  // In place of lead_to(): tells those who ask to join that the run has ended. Calls `done` on an actor, once, when
  // `count` of them are gone again or `limit` has passed.
  void turn_away(size_t count, std::chrono::seconds limit, std::function<void()> done);

 private:
  caf::actor_system& system_;
  JoinServerActor server_;
  caf::actor turning_away_;
  Address address_;
};

// Opens `listener` at `at`. Where `at` names no port and the last start of the run in `folder` was killed, its port is
// used, so that its workers find this start. Returns that port if another program has taken it, else 0. Throws
// ConfigError.
uint16_t open_join_listener(std::optional<JoinListener>& listener, caf::actor_system& system, const Address& at,
                            const std::string& folder, const NetworkConfig& network);

}  // namespace troupe
