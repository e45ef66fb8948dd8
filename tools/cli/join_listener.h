#pragma once
// Listens for workers and inference processes that join a run. Used by the main thread of `troupe train`.

#include <cstdint>
#include <optional>
#include <string>

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

 private:
  caf::actor_system& system_;
  JoinServerActor server_;
  Address address_;
};

// Opens `listener` at `at`. Where `at` names no port and the last start of the run in `folder` was killed, its port is
// used, so that its workers find this start. Returns that port if another program has taken it, else 0. Throws
// ConfigError.
uint16_t open_join_listener(std::optional<JoinListener>& listener, caf::actor_system& system, const Address& at,
                            const std::string& folder, const NetworkConfig& network);

}  // namespace troupe
