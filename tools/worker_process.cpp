#include "tools/worker_process.h"

#include <algorithm>
#include <thread>

#include "actors/messages.h"
#include "envs/make_env.h"
#include "runtime/caf_owned_system.h"
#include "runtime/config.h"
#include "tools/launch.h"

namespace troupe {

WiringPtr worker_wiring(const std::string& config) {
  auto wiring = std::make_shared<Wiring>();
  wiring->config = parse_config(config, "the run's config");
  wiring->make_env = [](const EnvConfig& env) { return make_env(env); };
  EnvConfig one = wiring->config.env;
  one.rows = 1;
  wiring->spec = make_env(one)->spec();
  // Workers share the threads of the actor system. One whose environment waits would hold up the others, and the hosts, with it.
  wiring->threads = wiring->spec.blocks;
  return wiring;
}

size_t threads_for(size_t workers) {
  return std::clamp<size_t>(workers, 1, std::max(1U, std::thread::hardware_concurrency()));
}

int with_network(size_t threads, const std::function<int(caf::actor_system&)>& body) {
  OwnedSystem system({.scheduler = SchedulerKind::threads, .threads = threads, .network = true, .network_config = {}},
                     register_messages);
  const int code = body(system.get());
  if (!system.await_actors(kFarewell)) leave_threads_behind();
  return code;
}

}  // namespace troupe
