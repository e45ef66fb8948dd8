#pragma once
// WorkerHost: keeps one rollout worker joined to a run from a process of its own. Connects to the run's join server,
// joins, starts the worker with what the welcome says, and starts over when the connection or the worker is lost.
// Event-based; only connects outward. It ends when the run ends, when its patience does, or when the worker cannot be
// made.

#include <functional>
#include <string>

#include "actors/joining.h"
#include "actors/messages.h"
#include "actors/run_context.h"

namespace troupe {

struct WorkerHostState {
  static inline const char* name = "worker host";

  Joining joining;
  std::function<RunContextPtr(const std::string& config)> make_context;
  WorkerActor worker;
};

// `make_context` turns the run's config into environments. `on_end` is called once, with an empty text when the run
// ended in order, else with one line.
WorkerHostActor::behavior_type worker_host(WorkerHostActor::stateful_pointer<WorkerHostState> self, RunAddress run,
                                           std::function<RunContextPtr(const std::string&)> make_context,
                                           std::function<void(const std::string&)> on_end);

}  // namespace troupe
