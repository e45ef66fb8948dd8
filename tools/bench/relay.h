#pragma once
// Relay: a child process that passes the bytes of connections on to a port of this machine, and lets at most so many a
// second through in each direction, like a slow network. Main thread only: the child ends with the thread that started
// it.
//
// Each direction of each connection has an allowance, which grows with the time up to kBurstSeconds of the rate, and at
// least 8 KiB. A message that finds enough of it passes at once, so the relay adds no latency but that of two more
// system calls and a change of process. Buffers of the system hold some megabytes before and after it, as those of a
// network card do.

#include <sys/types.h>

#include <cstdint>

namespace troupe {

// Bytes that have passed: from those who connect to the port, and back to them.
struct LinkBytes {
  uint64_t up = 0, down = 0;

  LinkBytes& operator+=(const LinkBytes& other) {
    up += other.up;
    down += other.down;
    return *this;
  }
  friend LinkBytes operator-(const LinkBytes& a, const LinkBytes& b) { return {a.up - b.up, a.down - b.down}; }
};

class Relay {
 public:
  static constexpr double kBurstSeconds = 2e-3;
  static constexpr int kMostConnections = 8;  // at a time; more wait

  // Passes on to `target` at 127.0.0.1. Throws std::runtime_error when the process cannot be started.
  Relay(uint16_t target, double bytes_per_second);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  uint16_t port() const { return port_; }  // at 127.0.0.1
  LinkBytes bytes() const;                 // of all connections so far

 private:
  struct Shared;  // with the child

  uint16_t port_ = 0;
  pid_t pid_ = 0;
  Shared* shared_ = nullptr;
};

}  // namespace troupe
