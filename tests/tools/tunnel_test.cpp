#include "tools/cli/tunnel.h"

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("tunnel: in a login over SSH the command forwards the port to the machine of the login") {
  CHECK(tunnel_command({"127.0.0.1", 8080}, "10.0.0.1 50000 10.0.0.7 22") == "ssh -N -L 8080:127.0.0.1:8080 10.0.0.7");
}

TEST_CASE("tunnel: the port of the SSH server is named where it is not 22") {
  CHECK(tunnel_command({"127.0.0.1", 8080}, "10.0.0.1 50000 10.0.0.7 2222") ==
        "ssh -N -L 8080:127.0.0.1:8080 -p 2222 10.0.0.7");
}

TEST_CASE("tunnel: none outside of such a login, and none for a port on another interface") {
  CHECK(tunnel_command({"127.0.0.1", 8080}, "").empty());
  CHECK(tunnel_command({"127.0.0.1", 8080}, "10.0.0.1 50000 10.0.0.7").empty());
  CHECK(tunnel_command({"0.0.0.0", 8080}, "10.0.0.1 50000 10.0.0.7 22").empty());
}
