#include "runtime/caf_owned_system.h"

#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace troupe {

namespace {

constexpr std::chrono::milliseconds kGrace{500};

}  // namespace

OwnedSystem::OwnedSystem(const SystemOptions& options, void (*register_messages)(caf::actor_system_config&))
    : parts_(std::make_shared<Parts>()) {
  register_messages(parts_->config);
  configure(parts_->config, options);
  parts_->system = std::make_unique<caf::actor_system>(parts_->config);
}

OwnedSystem::~OwnedSystem() {
  parts_->system->await_all_actors_done();
  std::promise<void> ended;
  const std::future<void> end = ended.get_future();
  std::thread([parts = std::move(parts_), ended = std::move(ended)]() mutable {
    parts.reset();
    ended.set_value();
  }).detach();
  end.wait_for(kGrace);
}

}  // namespace troupe
