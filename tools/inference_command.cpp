#include <iostream>

#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/inference_host.h"
#include "runtime/config.h"
#include "runtime/errors.h"
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
  std::string error;  // written by the host before signals.end(), read after it
  const auto on_end = [&](const std::string& why) {
    error = why;
    signals.end();
  };
  const auto make_wiring = [](const std::string& config) -> WiringPtr {
    return learn_wiring(parse_config(config, "the run's config"));
  };
  bool interrupted = false;
  with_network(2, [&](caf::actor_system& system) {
    const InferenceHostActor host = system.spawn<caf::detached>(
        inference_host,
        InferenceHostParts{{options.connect.host, options.connect.port, nullptr}, make_wiring, route_to, on_end});
    interrupted = signals.wait();
    if (interrupted) caf::anon_send(host, Stop{"interrupted"});
    return 0;
  });
  close_log();
  if (!error.empty()) throw ConfigError("--connect " + error);
  return interrupted ? kExitInterrupted : 0;
}

}  // namespace troupe
