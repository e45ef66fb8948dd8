#include "runtime/caf/owned_system.h"

#include <thread>

#include <caf/actor_ostream.hpp>
#include <caf/logger.hpp>

namespace troupe {

namespace {

constexpr std::chrono::milliseconds kGrace{500};

}  // namespace

// Body of the thread that ends the system. It is started together with the system: at the end, a process may have
// reached its limit of threads.
void OwnedSystem::Shared::end_when_told() {
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
    : shared_(std::make_shared<Shared>()) {
  register_messages(shared_->config);
  configure(shared_->config, options);
  shared_->system = std::make_unique<caf::actor_system>(shared_->config);
  // CAF's own actors print messages of a broken peer that they do not know, and nothing of troupe prints that way.
  if (options.network) caf::actor_ostream::redirect_all(*shared_->system, "/dev/null");
  std::thread([shared = shared_] { shared->end_when_told(); }).detach();
}

bool OwnedSystem::await_actors(std::chrono::milliseconds deadline) {
  const MutexLock lock(shared_->mutex);
  shared_->awaiting = true;
  shared_->changed.notify_all();
  const bool done = shared_->changed.wait_for(
      shared_->mutex, deadline, [this]() TROUPE_REQUIRES(shared_->mutex) { return shared_->actors_done; });
  abandoned_ = !done;
  return done;
}

OwnedSystem::~OwnedSystem() {
  // This thread made the system, so it holds the system's logger, whose last owner ends the destructor's wait.
  caf::logger::set_current_actor_system(nullptr);
  const MutexLock lock(shared_->mutex);
  shared_->ending = true;
  shared_->changed.notify_all();
  if (!abandoned_)
    shared_->changed.wait_for(shared_->mutex, kGrace,
                              [this]() TROUPE_REQUIRES(shared_->mutex) { return shared_->ended; });
}

}  // namespace troupe
