#pragma once
// An actor system whose end takes a bounded time. In CAF 0.17.6 the destructor of an actor system sometimes waits for ever for
// the thread of a detached actor that has ended: at Ctrl-C about every fourth worker process did, and at its end one in tens of
// trainers that had remote workers. Used by the functions that start the actors of a process, on their thread.

#include <memory>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include "runtime/caf_system.h"

namespace troupe {

class OwnedSystem {
 public:
  OwnedSystem(const SystemOptions& options, void (*register_messages)(caf::actor_system_config&));
  // Waits until every actor has ended, as they were told to before. Then CAF has a moment to end its own threads; the ones that
  // do not are idle and are left to the end of the process.
  ~OwnedSystem();
  OwnedSystem(const OwnedSystem&) = delete;
  OwnedSystem& operator=(const OwnedSystem&) = delete;

  caf::actor_system& get() { return *parts_->system; }

 private:
  struct Parts {
    caf::actor_system_config config;
    std::unique_ptr<caf::actor_system> system;  // refers to config
  };
  std::shared_ptr<Parts> parts_;
};

}  // namespace troupe
