#include "runtime/caf/connect.h"

#include "runtime/base/tcp_probe.h"
#include "runtime/caf/greeting.h"

namespace troupe {

namespace {

using Clock = std::chrono::steady_clock;

caf::result<std::string> reach(const std::string& host, uint16_t port, Clock::time_point until) {
  const TcpProbe probe = probe_tcp(host, port, until);
  if (!probe.address.empty()) {
    if (caf::error other = await_greeting(probe.address, port, until)) return other;
    return probe.address;
  }
  if (probe.unknown_host) return make_error(Fault::io_failed, probe.problem);
  if (probe.late) return caf::sec::request_timeout;
  return make_error(Fault::peer_gone, probe.problem);
}

}  // namespace

caf::actor spawn_probe(caf::actor_system& system, const std::string& host, uint16_t port,
                       std::chrono::milliseconds deadline) {
  // Hidden: the process can end without waiting for a name server.
  return system.spawn<caf::detached + caf::hidden>(
      [host, port, until = Clock::now() + deadline](caf::event_based_actor* self) -> caf::behavior {
        return {[self, host, port, until](caf::connect_atom) {
          self->quit();
          return reach(host, port, until);
        }};
      });
}

}  // namespace troupe
