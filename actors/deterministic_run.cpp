#include "actors/deterministic_run.h"

#include <caf/actor_system.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/send.hpp>

namespace troupe {

void run_deterministically(caf::actor_system& system, const SupervisorActor& supervisor, const bool& ended,
                           const std::function<bool()>& interrupted, const std::function<void()>& stopping) {
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  bool told = false;
  // Delivers the oldest message or, if there is none, triggers the next timer. False if there is neither.
  const auto step = [&] { return scheduler.try_run_once() || scheduler.trigger_timeout(); };
  while (!ended) {
    const bool stop = interrupted();
    if (step()) continue;
    if (stop && !told) {
      told = true;
      if (stopping) stopping();
      caf::anon_send(supervisor, Stop{"interrupted"});
    } else {
      caf::anon_send(supervisor, idle_atom_v);
    }
    TROUPE_CHECK(scheduler.has_job(), "the supervisor is gone");
  }
  while (scheduler.try_run_once()) {
  }
}

}  // namespace troupe
