#pragma once
// The section "network" of a config file: connections between processes. Plain values; any thread.

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/config/fields.h"

namespace troupe {

struct NetworkConfig {
  std::chrono::milliseconds heartbeat{1000};
  std::chrono::milliseconds peer_timeout{5000};       // silence after which a peer counts as gone
  std::chrono::milliseconds transfer_timeout{30000};  // deadline of one weight transfer
  int64_t chunk_bytes = 4 << 20;                      // larger messages travel in parts (actors/parts.h)
  std::string weights = "auto";                       // how weights reach other processes, see sends_weights()
  std::string backend = "auto";                       // over what ranks exchange gradients, see sends_gradients()
  friend bool operator==(const NetworkConfig&, const NetworkConfig&) = default;
};

// Adds the settings of the section, whose values are those of `config`.
void describe(NetworkConfig& config, Fields& fields);

// Whether other processes get weights: network.weights is not "in_process".
bool sends_weights(const NetworkConfig& config);
// The process group backend that brings them: "gloo" or "nccl". Requires sends_weights().
std::string weights_backend(const NetworkConfig& config);

// Whether the gradients of rank processes travel over a process group, "gloo" or "nccl", rather than through rank 0:
// network.backend is neither "auto" nor "messages".
bool sends_gradients(const NetworkConfig& config);

}  // namespace troupe
