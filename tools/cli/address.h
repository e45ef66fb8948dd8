#pragma once
// The address on which a process listens or to which it connects, as flags and files give it. Pure functions; any
// thread.

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

struct Address {
  std::string host;   // name, IPv4, or IPv6 without brackets
  uint16_t port = 0;  // 0 (listening only) = any free port

  // "host:port", "[::1]:port".
  std::string text() const;
  friend bool operator==(const Address&, const Address&) = default;
};

inline const Address kLoopbackAnyPort = {"127.0.0.1", 0};

// "host:port" or "[ipv6]:port". Throws ConfigError, which begins with `flag`.
Address parse_address(std::string_view flag, const std::string& text);
// The same for an address to listen on: a port alone is on loopback, and port 0 is any free port.
Address parse_listen_address(std::string_view flag, const std::string& text);

// Whether a process that listens on this host listens on all addresses of its machine: 0.0.0.0 and ::.
bool is_any_address(const std::string& host);

// "host:port" with which other machines reach a process that listens at `address`. All addresses of this machine
// become `this_host`, or HOST if that is empty or localhost.
std::string address_for_others(const Address& address, const std::string& this_host);

}  // namespace troupe
