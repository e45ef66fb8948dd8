#include "runtime/caf/network_config.h"

namespace troupe {

void describe(NetworkConfig& c, Fields& fields) {
  const Section s(fields, "network", "runtime/caf", Change::at_resume,
                  {{.condition = is_false("deterministic"), .refused = false}});
  s.add(c.heartbeat, "heartbeat_ms", between(10, 600'000), "time between heartbeats");
  s.add(c.peer_timeout, "peer_timeout_ms", between(20, 3'600'000), "silence after which a peer counts as gone");
  s.add(c.transfer_timeout, "transfer_timeout_ms", between(10, 3'600'000), "deadline of one weight transfer");
  s.add(c.chunk_bytes, "chunk_bytes", between(4096, 8 << 20),
        "larger messages between processes travel in parts of this size, and weights in buckets of it");
}

}  // namespace troupe
