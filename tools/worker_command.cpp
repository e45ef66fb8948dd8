#include <atomic>

#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/worker_host.h"
#include "tools/commands.h"
#include "tools/launch.h"
#include "tools/stop_signals.h"
#include "tools/worker_process.h"

namespace troupe {

int run_worker(const WorkerOptions& options) {
  StopSignals signals;
  signals.begin({});
  JoinReport report;
  std::atomic<int64_t> left = options.count;
  const auto on_end = [&](const std::string& error) {
    if (!error.empty()) report.fail(error);
    if (--left == 0) signals.end();
  };
  bool interrupted = false;
  with_network(threads_for(static_cast<size_t>(options.count)), joining_network(), [&](caf::actor_system& system) {
    std::vector<WorkerHostActor> hosts;
    for (int64_t i = 0; i < options.count; ++i)
      hosts.push_back(system.spawn(worker_host, report.address(options.connect, options.wait), worker_wiring, on_end));
    interrupted = signals.wait();
    if (interrupted)
      for (const WorkerHostActor& host : hosts) caf::anon_send(host, Stop{"interrupted"});
    return 0;
  });
  return report.exit_code(interrupted);
}

}  // namespace troupe
