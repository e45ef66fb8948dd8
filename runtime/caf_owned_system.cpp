#include "runtime/caf_owned_system.h"

#include <future>
#include <thread>
#include <utility>

namespace troupe {

namespace {

constexpr std::chrono::milliseconds kGrace{500};

// Does `work` on a thread of its own. Whether it was done before the deadline; else the thread is left alone with it.
template <class Work>
bool done_within(std::chrono::milliseconds deadline, Work work) {
  std::promise<void> promise;
  const std::future<void> done = promise.get_future();
  std::thread([work = std::move(work), promise = std::move(promise)]() mutable {
    work();
    promise.set_value();
  }).detach();
  return done.wait_for(deadline) == std::future_status::ready;
}

}  // namespace

OwnedSystem::OwnedSystem(const SystemOptions& options, void (*register_messages)(caf::actor_system_config&))
    : parts_(std::make_shared<Parts>()) {
  register_messages(parts_->config);
  configure(parts_->config, options);
  parts_->system = std::make_unique<caf::actor_system>(parts_->config);
}

bool OwnedSystem::await_actors(std::chrono::milliseconds deadline) {
  abandoned_ = !done_within(deadline, [parts = parts_]() mutable {
    parts->system->await_all_actors_done();
    parts.reset();
  });
  return !abandoned_;
}

OwnedSystem::~OwnedSystem() {
  if (abandoned_) return;  // the thread that waits for the actor holds the system
  done_within(kGrace, [parts = std::move(parts_)]() mutable { parts.reset(); });
}

}  // namespace troupe
