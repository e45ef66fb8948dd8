#include "runtime/caf/system.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <thread>

#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>

#include "runtime/caf/owned_system.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// Checks that the text is a description and not the name of a constant.
void check_words(const std::string& text) {
  CAPTURE(text);
  CHECK(text.size() > 5);
  CHECK(text.find('_') == std::string::npos);
}

// A module of an actor system that records which thread ends the system.
class EndWitness : public caf::actor_system::module {
 public:
  static inline std::promise<std::thread::id> ended_by;

  void start() override {}
  void stop() override { ended_by.set_value(std::this_thread::get_id()); }
  void init(caf::actor_system_config&) override {}
  id_t id() const override { return openssl_manager; }
  void* subtype_ptr() override { return this; }
};

void add_witness(caf::actor_system_config& config) {
  config.module_factories.emplace_back([](caf::actor_system&) { return new EndWitness; });
}

// A module of an actor system that records the complete destruction of the system.
class DestructionWitness : public caf::actor_system::module {
 public:
  static inline std::shared_ptr<std::atomic<bool>> of_next;  // set when the next system is destroyed

  ~DestructionWitness() override { *destroyed_ = true; }
  void start() override {}
  void stop() override {}
  void init(caf::actor_system_config&) override {}
  id_t id() const override { return openssl_manager; }
  void* subtype_ptr() override { return this; }

 private:
  std::shared_ptr<std::atomic<bool>> destroyed_ = of_next;
};

// Whether a system is gone when the destructor of its owner returns.
bool ends_in_time() {
  const auto destroyed = DestructionWitness::of_next = std::make_shared<std::atomic<bool>>(false);
  {
    OwnedSystem owned({.network_config = {}}, [](caf::actor_system_config& config) {
      config.module_factories.emplace_back([](caf::actor_system&) { return new DestructionWitness; });
    });
    CHECK(owned.await_actors(std::chrono::minutes(1)));
  }
  return *destroyed;
}

}  // namespace

TEST_CASE("owned_system: after a timeout of await_actors the owner's thread does not end the system") {
  for (const bool ends_before : {true, false}) {
    CAPTURE(ends_before);
    EndWitness::ended_by = {};
    std::promise<void> release, released;
    std::future<std::thread::id> ended_by = EndWitness::ended_by.get_future();
    {
      OwnedSystem owned({.network_config = {}}, add_witness);
      owned.get().spawn<caf::detached>([wait = release.get_future().share(), &released](caf::event_based_actor*) {
        wait.wait();
        released.set_value();
      });
      CHECK(!owned.await_actors(std::chrono::milliseconds(0)));
      if (ends_before) {
        release.set_value();
        released.get_future().wait();
      }
    }
    if (!ends_before) {
      release.set_value();
      released.get_future().wait();
    }
    CHECK(ended_by.get() != std::this_thread::get_id());
  }
}

// The destructor waits for a limited time, which can be too short on a busy machine.
TEST_CASE("owned_system: a system whose actors have ended is gone when its owner's destructor returns") {
  bool in_time = false;
  for (int attempt = 0; attempt < 20 && !in_time; ++attempt) in_time = ends_in_time();
  CHECK(in_time);
}

TEST_CASE("describe: every error of CAF has a description in plain words") {
  for (int code = 1; code <= static_cast<int>(caf::sec::connection_timeout); ++code)
    check_words(describe(make_error(static_cast<caf::sec>(code))));
  for (int code = 1; code <= static_cast<int>(caf::exit_reason::unreachable); ++code)
    check_words(describe(make_error(static_cast<caf::exit_reason>(code))));
}

TEST_CASE("describe: a fault is described by its context, or in plain words if it has none") {
  CHECK(describe(make_error(Fault::bad_message, "workers is 0, expected 1 to 4096")) ==
        "workers is 0, expected 1 to 4096");
  for (int code = 1; code <= static_cast<int>(Fault::score_failed); ++code)
    check_words(describe(make_error(static_cast<Fault>(code))));
}

TEST_CASE("fault_of_exception: memory that the system refuses is described in plain words") {
  CHECK(describe(fault_of_exception(std::make_exception_ptr(std::bad_alloc()))) == "out of memory");
}

TEST_CASE("process_here: a process of the same machine is known by its number, and of others nothing is") {
  using Data = caf::node_id::default_data;
  const auto node = [](uint32_t process, uint8_t host) {
    Data::host_id_type id{};
    id.back() = host;
    return caf::node_id(caf::make_counted<Data>(process, id));
  };
  CHECK(process_here(node(7, 1), node(8, 1)) == 8);
  CHECK_FALSE(process_here(node(7, 1), node(8, 2)));
  CHECK_FALSE(process_here(node(7, 1), node(7, 1)));  // the process itself
  CHECK_FALSE(process_here(node(7, 1), node(UINT32_MAX, 1)));
  CHECK_FALSE(process_here(caf::node_id(), node(8, 1)));  // a system without a network
  CHECK_FALSE(process_here(node(7, 1), caf::node_id()));
}

TEST_CASE("make_error: a long context is cut, so that no error exceeds what a message may have") {
  const std::string limit(kMostErrorBytes, 'x');
  CHECK(describe(make_error(Fault::bad_message, limit + "y")) == limit);
}
