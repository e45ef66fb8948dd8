#pragma once
// WorkerHost: runs one rollout worker in a separate process and keeps it joined to a run. Connects to the run's join
// server, joins, starts the worker with the contents of the welcome, and joins again when the connection or the worker
// is lost. Event-based; makes only outgoing connections. It ends when the run ends, when it has failed to connect for
// too long, or when the worker cannot be created.

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
// ended normally, else with a one-line error.
WorkerHostActor::behavior_type worker_host(SelfPointer<WorkerHostActor, WorkerHostState> self, RunAddress run,
                                           std::function<RunContextPtr(const std::string&)> make_context,
                                           std::function<void(const std::string&)> on_end);

}  // namespace troupe
