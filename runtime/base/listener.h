#pragma once
// A socket that listens, for the ports that a process opens.

#include <cstdint>
#include <string>

namespace troupe {

// A TCP socket that listens on an address or host name (IPv4 is preferred where a name has both) and does not block;
// the caller closes it. Port 0 is any free one. Throws IoError that says in plain words why it cannot.
int open_listener(const std::string& host, uint16_t port);

}  // namespace troupe
