#pragma once
// An actor system that shuts down in bounded time. In CAF 0.17.6 the destructor of an actor system sometimes waits
// forever for the thread of a detached actor that has ended: it happened to about one in four worker processes at
// Ctrl-C, and at the end of a few percent of trainers with remote workers. An actor whose environment is inside a step
// cannot be ended at all. Used by the functions that start the actors of a process, on their thread.

#include <chrono>
#include <condition_variable>
#include <memory>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include "runtime/base/mutex.h"
#include "runtime/caf/system.h"

namespace troupe {

class OwnedSystem {
 public:
  OwnedSystem(const SystemOptions& options, void (*register_messages)(caf::actor_system_config&));
  // CAF has a moment to end its threads; the ones that do not end are left to the end of the process. Every actor must
  // have been told to end.
  ~OwnedSystem();
  OwnedSystem(const OwnedSystem&) = delete;
  OwnedSystem& operator=(const OwnedSystem&) = delete;

  caf::actor_system& get() { return *shared_->system; }

  // Waits at most `deadline` until every actor has ended; they must have been told to. Returns whether all have.
  bool await_actors(std::chrono::milliseconds deadline);

 private:
  // Shared with the thread that ends the system. Whoever destroys the last reference must not have to wait for an
  // actor, so the thread keeps one until the system is gone.
  struct Shared {
    void end_when_told();

    caf::actor_system_config config;
    std::unique_ptr<caf::actor_system> system;  // refers to config
    Mutex mutex;
    std::condition_variable_any changed;
    // What the owner has told the thread, and what the thread has done.
    bool awaiting TROUPE_GUARDED_BY(mutex) = false, ending TROUPE_GUARDED_BY(mutex) = false;
    bool actors_done TROUPE_GUARDED_BY(mutex) = false, ended TROUPE_GUARDED_BY(mutex) = false;
  };
  std::shared_ptr<Shared> shared_;
  bool abandoned_ = false;  // left to an actor that has not ended
};

}  // namespace troupe
