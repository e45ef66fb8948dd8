#pragma once
// Network addresses as text. Pure; any thread.

#include <cstdint>
#include <string>

namespace troupe {

// "host:port", with brackets around an IPv6 address: "[::1]:5555".
inline std::string address_text(const std::string& host, uint16_t port) {
  return (host.find(':') == std::string::npos ? host : '[' + host + ']') + ':' + std::to_string(port);
}

}  // namespace troupe
