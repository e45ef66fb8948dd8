#pragma once
// The section "network" of a config file: connections between processes. Plain values; any thread.

#include <chrono>
#include <cstdint>

#include "runtime/config/fields.h"

namespace troupe {

struct NetworkConfig {
  std::chrono::milliseconds heartbeat{1000};
  std::chrono::milliseconds peer_timeout{5000};       // silence after which a peer counts as gone
  std::chrono::milliseconds transfer_timeout{30000};  // deadline of one weight transfer
  int64_t chunk_bytes = 4 << 20;                      // larger messages travel in parts (actors/parts.h)
  friend bool operator==(const NetworkConfig&, const NetworkConfig&) = default;
};

// Adds the settings of the section, whose values are those of `config`.
void describe(NetworkConfig& config, Fields& fields);

}  // namespace troupe
