#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/inference_host.h"
#include "runtime/config.h"
#include "runtime/log.h"
#include "tools/commands.h"
#include "tools/launch.h"
#include "tools/learn_wiring.h"
#include "tools/stop_signals.h"
#include "tools/worker_process.h"

namespace troupe {

int run_inference(const InferenceOptions& options) {
  StopSignals signals;
  signals.begin({});
  open_log(nullptr, {.stderr_level = LogLevel::info});
  JoinReport report;
  const auto on_end = [&](const std::string& error) {
    if (!error.empty()) report.fail(error);
    signals.end();
  };
  const auto make_wiring = [](const std::string& config) -> WiringPtr {
    return learn_wiring(parse_config(config, "the run's config"));
  };
  bool interrupted = false;
  with_network(2, joining_network(), [&](caf::actor_system& system) {
    const InferenceHostActor host = system.spawn<caf::detached>(
        inference_host,
        InferenceHostParts{report.address(options.connect, options.wait), make_wiring, route_to, on_end});
    interrupted = signals.wait();
    if (interrupted) caf::anon_send(host, Stop{"interrupted"});
    return 0;
  });
  close_log();
  return report.exit_code(interrupted);
}

}  // namespace troupe
