#include "runtime/caf/network_config.h"

#include "runtime/base/errors.h"

namespace troupe {

void describe(NetworkConfig& c, Fields& fields) {
  const Section s(fields, "network", "runtime/caf", Change::at_resume,
                  {{.condition = is_false("deterministic"), .refused = false}});
  s.add(c.heartbeat, "heartbeat_ms", between(10, 600'000), "time between heartbeats");
  s.add(c.peer_timeout, "peer_timeout_ms", between(20, 3'600'000), "silence after which a peer counts as gone");
  s.add(c.transfer_timeout, "transfer_timeout_ms", between(10, 3'600'000), "deadline of one weight transfer");
  s.add(c.chunk_bytes, "chunk_bytes", between(4096, 8 << 20),
        "larger messages between processes travel in parts of this size, and weights in buckets of it");
  s.add(c.weights, "weights", one_of(kWords<"auto", "in_process", "gloo", "nccl">),
        "how weights reach inference processes and scorers: over TCP with Gloo, from GPU to GPU with NCCL, which needs "
        "another GPU for the trainer and for each such process, or not at all, since only inference actors of the "
        "trainer's process may serve (in_process); auto: Gloo, also with GPUs, because weights are in host memory at "
        "both ends");
  s.add(
      c.backend, "backend", one_of(kWords<"auto", "messages", "gloo", "nccl">),
      "how rank processes exchange gradients: all through rank 0 (messages), or each rank adds up a part of them, over "
      "TCP with Gloo, or from GPU to GPU with NCCL, which needs another GPU for each rank; auto: messages. It changes "
      "nothing of the result",
      {.needs = {{.condition = is_above("trainer.ranks", 1), .refused = false}}});
}

bool sends_weights(const NetworkConfig& config) { return config.weights != "in_process"; }

std::string weights_backend(const NetworkConfig& config) {
  TROUPE_CHECK(sends_weights(config), config.weights);
  return config.weights == "auto" ? "gloo" : config.weights;
}

bool sends_gradients(const NetworkConfig& config) { return config.backend != "auto" && config.backend != "messages"; }

}  // namespace troupe
