#pragma once
// How a browser on another machine reaches a page that is served on the loopback interface. Plain functions; any
// thread.

#include <string>

#include "tools/cli/address.h"

namespace troupe {

// The command that makes a port of the loopback interface reachable from the machine that the user sits at.
// `ssh_connection` is the value of SSH_CONNECTION, which is set in a login over SSH. The result is empty if that is not
// a complete value, or if the port is on another interface.
std::string tunnel_command(const Address& address, const std::string& ssh_connection);

// Prints that command, if there is one in the environment of this process.
void print_tunnel(const Address& address);

}  // namespace troupe
