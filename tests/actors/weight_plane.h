#pragma once
// One thread for actors, and what the tests of the weight plane share.

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/inference_host.h"
#include "actors/supervisor.h"
#include "runtime/caf/system.h"
#include "runtime/weights/sender.h"

namespace troupe::test {

inline constexpr int64_t kFloats = 40;

// An actor system that handles its messages and timers one at a time.
class OneThread {
 public:
  OneThread() {
    register_messages(config_);
    configure(config_, {.scheduler = SchedulerKind::single_step, .network_config = {}});
    system_ = std::make_unique<caf::actor_system>(config_);
    scheduler_ = &dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
  }
  caf::actor_system& system() { return *system_; }
  // Handles events until the condition is true. False if no event is left, or after 2 million events. Timers also fire
  // while messages are pending, as in a run that is never idle.
  bool until(const std::function<bool()>& condition) {
    for (int events = 0; events < 2'000'000; ++events) {
      if (condition()) return true;
      if (events % 10 == 9) scheduler_->trigger_timeout();
      if (!scheduler_->try_run_once() && !scheduler_->trigger_timeout()) return false;
    }
    return false;
  }
  void settle() {
    while (scheduler_->try_run_once()) {
    }
  }

 private:
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
  caf::scheduler::test_coordinator* scheduler_;
};

}  // namespace troupe::test
