#include <atomic>
#include <iostream>
#include <mutex>

#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/worker_host.h"
#include "runtime/errors.h"
#include "tools/commands.h"
#include "tools/launch.h"
#include "tools/stop_signals.h"
#include "tools/worker_process.h"

namespace troupe {

int run_worker(const WorkerOptions& options) {
  StopSignals signals;
  signals.begin({});
  std::mutex mutex;
  std::string error;
  std::atomic<int64_t> left = options.count;
  const auto on_end = [&](const std::string& why) {
    if (!why.empty()) {
      const std::lock_guard lock(mutex);
      error = why;
    }
    if (--left == 0) signals.end();
  };
  bool interrupted = false;
  with_network(threads_for(static_cast<size_t>(options.count)), [&](caf::actor_system& system) {
    std::vector<WorkerHostActor> hosts;
    for (int64_t i = 0; i < options.count; ++i)
      hosts.push_back(system.spawn(worker_host, RunAddress{options.connect.host, options.connect.port, nullptr},
                                   worker_wiring, on_end));
    interrupted = signals.wait();
    if (interrupted)
      for (const WorkerHostActor& host : hosts) caf::anon_send(host, Stop{"interrupted"});
    return 0;
  });
  if (!error.empty()) throw ConfigError("--connect " + error);
  return interrupted ? kExitInterrupted : 0;
}

}  // namespace troupe
