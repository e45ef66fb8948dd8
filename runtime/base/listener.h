#pragma once
// Listening sockets, for the ports that a process opens.

#include <cstdint>
#include <string>

namespace troupe {

// A TCP socket that listens on an address or host name (IPv4 is preferred if a name has both) and does not block;
// the caller closes it. Port 0 means any free port. Throws IoError with the reason.
int open_listener(const std::string& host, uint16_t port);

}  // namespace troupe
