#include "tools/cli/tunnel.h"

#include <cstdlib>
#include <sstream>

#include "runtime/base/output.h"

namespace troupe {

std::string tunnel_command(const Address& address, const std::string& ssh_connection) {
  if (address.host != "127.0.0.1") return "";
  std::istringstream fields(ssh_connection);
  std::string client, client_port, server, server_port;
  fields >> client >> client_port >> server >> server_port;
  if (server_port.empty()) return "";
  const std::string port = std::to_string(address.port);
  return "ssh -N -L " + port + ':' + address.text() + (server_port == "22" ? "" : " -p " + server_port) + ' ' + server;
}

void print_tunnel(const Address& address) {
  const char* connection = std::getenv("SSH_CONNECTION");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  const std::string command = tunnel_command(address, connection == nullptr ? "" : connection);
  if (!command.empty()) print_line("           from your machine first: " + command);
}

}  // namespace troupe
