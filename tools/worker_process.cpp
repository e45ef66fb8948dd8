#include "tools/worker_process.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "actors/messages.h"
#include "envs/make_env.h"
#include "runtime/caf_owned_system.h"
#include "runtime/config.h"
#include "tools/launch.h"

namespace troupe {

namespace {

constexpr int kWakeUp = SIGUSR1;

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, kWakeUp}) sigaddset(&set, signal);
  return set;
}

}  // namespace

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
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  OwnedSystem system({.scheduler = SchedulerKind::threads, .threads = threads, .network = true, .network_config = {}},
                     register_messages);
  const int code = body(system.get());
  if (!system.await_actors(kFarewell)) leave_threads_behind();
  return code;
}

bool wait_for_signal() {
  const sigset_t signals = watched_signals();
  for (;;) {
    const int signal = sigwaitinfo(&signals, nullptr);
    if (signal == kWakeUp) return false;
    if (signal < 0) continue;
    sigset_t next = signals;
    sigdelset(&next, kWakeUp);
    pthread_sigmask(SIG_UNBLOCK, &next, nullptr);  // another Ctrl-C ends the process
    return true;
  }
}

void wake_up() { kill(getpid(), kWakeUp); }

}  // namespace troupe
