#pragma once
// Checks whether a process accepts TCP connections at an address, by connecting once. Blocks; any thread.

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe {

struct TcpProbe {
  std::string address;        // of the host, numeric, that accepted the connection; empty = none did
  std::string problem;        // why none did
  bool late = false;          // the deadline passed
  bool unknown_host = false;  // the host has no address
};

// The addresses of the host are tried one after the other, each for its share of the time that is left. Resolving the
// name may take longer than the deadline.
TcpProbe probe_tcp(const std::string& host, uint16_t port, std::chrono::steady_clock::time_point deadline);

}  // namespace troupe
