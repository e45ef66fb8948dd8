// `troupe worker`: rollout workers in a process of their own, which join a run.

#include <atomic>
#include <memory>
#include <optional>

#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/worker_host.h"
#include "tools/cli/command.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/worker_process.h"

namespace troupe {
namespace {

struct WorkerOptions {
  Address connect;
  std::optional<int64_t> wait;  // seconds
  int64_t count = 1;            // rollout workers in this process
};

WorkerOptions read_worker(Flags& flags) {
  WorkerOptions options;
  add_join_flags(flags, options.connect, options.wait);
  flags.option("--count", "N", options.count, integer_in(1, 1024), "rollout workers in this process (default: 1)");
  flags.read();
  return options;
}

// Used by the command and its hosts. A host can end after run_workers(), which waits at most kFarewell for a step of an
// environment.
struct Shared {
  StopSignals signals;
  std::shared_ptr<JoinReport> report = std::make_shared<JoinReport>();
  std::atomic<int64_t> left = 0;  // hosts that have not ended
};

int run_workers(const WorkerOptions& options) {
  const auto shared = std::make_shared<Shared>();
  shared->signals.begin({});
  shared->left = options.count;
  const auto on_end = [shared](const std::string& error) {
    if (!error.empty()) shared->report->fail(error);
    if (--shared->left == 0) shared->signals.end();
  };
  const auto make_context = [run = options.connect.text(), board = std::make_shared<ActorBoard>()](
                                const std::string& config) { return worker_context(run, config, board); };
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

}  // namespace

Command worker_command() {
  return {
      .name = "worker",
      .summary = "add rollout workers to a run, at any time, from any machine",
      .examples =
          "  troupe worker --connect 127.0.0.1:5555\n"
          "  troupe worker --connect trainer.local:5555 --count 4\n"
          "  troupe worker --connect trainer.local:5555 --wait 86400  # waits for a day\n",
      .exit_codes = {{0, "the run ended normally"},
                     {1, "the run was lost and did not come back within --wait"},
                     {2, "a mistake in the command, no run was found within --wait, or the run refused this process"},
                     {130, "stopped by a signal"}},
      .parse = read_then_run<read_worker, run_workers>};
}

}  // namespace troupe
