#pragma once
// Whether something accepts TCP connections at an address, found out by connecting once. Blocks its thread; any thread.

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

// The addresses of the host are tried in turn, each for its share of the time that is left. Looking the name up takes
// as long as the system's resolver takes, whatever the deadline.
TcpProbe probe_tcp(const std::string& host, uint16_t port, std::chrono::steady_clock::time_point deadline);

}  // namespace troupe
