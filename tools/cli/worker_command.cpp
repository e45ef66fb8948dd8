#include <atomic>
#include <memory>

#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/worker_host.h"
#include "tools/cli/commands.h"
#include "tools/cli/launch.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/worker_process.h"

namespace troupe {
namespace {

// Of the command and its hosts. A host whose environment does not return from a step can end after the command.
struct Shared {
  StopSignals signals;
  std::shared_ptr<JoinReport> report = std::make_shared<JoinReport>();
  std::atomic<int64_t> left = 0;  // hosts that have not ended
};

}  // namespace

int run_worker(const WorkerOptions& options) {
  const auto shared = std::make_shared<Shared>();
  shared->signals.begin({});
  shared->left = options.count;
  const auto on_end = [shared](const std::string& error) {
    if (!error.empty()) shared->report->fail(error);
    if (--shared->left == 0) shared->signals.end();
  };
  const auto make_context = [run = options.connect.text()](const std::string& config) {
    return worker_context(run, config);
  };
  bool interrupted = false;
  const auto count = static_cast<size_t>(options.count);
  with_network(threads_for(count), /*more=*/count + 1, joining_network(), [&](caf::actor_system& system) {
    std::vector<WorkerHostActor> hosts;
    for (int64_t i = 0; i < options.count; ++i)
      hosts.push_back(
          system.spawn(worker_host, shared->report->address(options.connect, options.wait), make_context, on_end));
    interrupted = shared->signals.wait();
    if (interrupted)
      for (const WorkerHostActor& host : hosts) caf::anon_send(host, Stop{"interrupted"});
    return 0;
  });
  return shared->report->exit_code(interrupted);
}

}  // namespace troupe
