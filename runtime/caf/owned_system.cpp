#include "runtime/caf/owned_system.h"

#include <thread>

namespace troupe {

namespace {

constexpr std::chrono::milliseconds kGrace{500};

}  // namespace

// What the thread does. It is there from the beginning: a process that is at its limit of threads must still be able to end.
void OwnedSystem::Parts::end_when_told() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return awaiting || ending; });
  if (awaiting) {
    lock.unlock();
    system->await_all_actors_done();
    lock.lock();
    actors_done = true;
    changed.notify_all();
  }
  changed.wait(lock, [this] { return ending; });
  lock.unlock();
  system.reset();
  lock.lock();
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
  std::unique_lock lock(parts_->mutex);
  parts_->awaiting = true;
  parts_->changed.notify_all();
  const bool done = parts_->changed.wait_for(lock, deadline, [this] { return parts_->actors_done; });
  abandoned_ = !done;
  return done;
}

OwnedSystem::~OwnedSystem() {
  std::unique_lock lock(parts_->mutex);
  parts_->ending = true;
  parts_->changed.notify_all();
  if (!abandoned_) parts_->changed.wait_for(lock, kGrace, [this] { return parts_->ended; });
}

}  // namespace troupe
