#pragma once
// The "gloo" backend: host memory over TCP, with the Gloo that is inside LibTorch.

#include <chrono>
#include <memory>

#include "runtime/weights/process_group.h"

namespace troupe {

// Ignores SIGPIPE in this process unless the program has set a handler: writing to a member that died must be an error.
std::shared_ptr<GroupBackend> make_gloo_backend(const BackendOptions& options);

// c10d's plain broadcast of one tensor: the baseline of the weight channel's benchmark.
class BareBroadcast {
 public:
  virtual ~BareBroadcast() = default;
  virtual void run(void* data, size_t bytes, int root) = 0;
};
// Requires a "gloo" backend.
std::unique_ptr<BareBroadcast> make_bare_broadcast(GroupBackend& backend, const Rendezvous& rendezvous,
                                                   std::chrono::milliseconds timeout);

}  // namespace troupe
