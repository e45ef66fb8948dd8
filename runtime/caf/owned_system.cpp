#include "runtime/caf/owned_system.h"

#include <thread>

namespace troupe {

namespace {

constexpr std::chrono::milliseconds kGrace{500};

}  // namespace

// What the thread does. It is there from the beginning: a process that is at its limit of threads must still be able to end.
void OwnedSystem::Parts::end_when_told() {
  bool await_actors = false;
  {
    const MutexLock lock(mutex);
    changed.wait(mutex, [this]() TROUPE_REQUIRES(mutex) { return awaiting || ending; });
    await_actors = awaiting;
  }
  if (await_actors) {
    system->await_all_actors_done();
    const MutexLock lock(mutex);
    actors_done = true;
    changed.notify_all();
    changed.wait(mutex, [this]() TROUPE_REQUIRES(mutex) { return ending; });
  }
  system.reset();
  const MutexLock lock(mutex);
  ended = true;
  changed.notify_all();
}

OwnedSystem::OwnedSystem(const SystemOptions& options, void (*register_messages)(caf::actor_system_config&))
    : parts_(std::make_shared<Parts>()) {
  register_messages(parts_->config);
  configure(parts_->config, options);
  parts_->system = std::make_unique<caf::actor_system>(parts_->config);
  std::thread([parts = parts_] { parts->end_when_told(); }).detach();
}

bool OwnedSystem::await_actors(std::chrono::milliseconds deadline) {
  const MutexLock lock(parts_->mutex);
  parts_->awaiting = true;
  parts_->changed.notify_all();
  const bool done = parts_->changed.wait_for(parts_->mutex, deadline,
                                             [this]() TROUPE_REQUIRES(parts_->mutex) { return parts_->actors_done; });
  abandoned_ = !done;
  return done;
}

OwnedSystem::~OwnedSystem() {
  const MutexLock lock(parts_->mutex);
  parts_->ending = true;
  parts_->changed.notify_all();
  if (!abandoned_)
    parts_->changed.wait_for(parts_->mutex, kGrace, [this]() TROUPE_REQUIRES(parts_->mutex) { return parts_->ended; });
}

}  // namespace troupe
