#include "runtime/caf/route.h"

#include <caf/io/network/multiplexer.hpp>

#include "runtime/caf/broker.h"

namespace troupe {

void route_through(caf::actor_system& system, const caf::node_id& near, const caf::node_id& far) {
  if (!system.has_middleman() || far == system.node() || far == near) return;
  // A message that is sent before the network thread comes here can still be lost; its sender asks again.
  system.middleman().backend().post([connections = broker_of(system), near, far] {
    if (caf::io::basp_broker* const broker = running(connections)) broker->instance.tbl().add_indirect(near, far);
  });
}

}  // namespace troupe
