#include "runtime/caf/measured.h"

#include <poll.h>
#include <unistd.h>

#include <thread>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/base/blocked.h"
#include "runtime/base/descriptor.h"
#include "runtime/caf/system.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using Counter = caf::typed_actor<caf::reacts_to<int32_t>>;

struct CounterState {
  static inline const char* name = "counter";
};

// An actor that counts its messages, on CAF's test scheduler.
struct Fixture {
  Fixture() : system(configured(config)) {}

  static caf::actor_system_config& configured(caf::actor_system_config& config) {
    configure(config, {.scheduler = SchedulerKind::single_step, .network_config = {}});
    return config;
  }
  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  }
  Counter spawn(bool watched) {
    return system.spawn([this, watched](SelfPointer<Counter, CounterState> self) -> Counter::behavior_type {
      guard(self);
      if (watched) self->watch(board.add("counter"));
      return {[this](int32_t) { ++handled; }};
    });
  }

  caf::actor_system_config config;
  caf::actor_system system;
  ActorBoard board;
  int handled = 0;
};

}  // namespace

TEST_CASE("measured: an actor that is watched sends itself a probe each second, which its behaviour does not see") {
  Fixture f;
  Counter counter = f.spawn(true);
  f.scheduler().run();
  for (int second = 0; second < 3; ++second) {
    CHECK(f.scheduler().advance_time(std::chrono::seconds(1)));
    CHECK(f.scheduler().run() == 1);
  }
  CHECK(f.handled == 0);
  const ActorBoard::Figures figures = f.board.figures(ActorBoard::Clock::now()).at("counter");
  CHECK(figures.actors == 1);
  CHECK(figures.oldest_seconds == 0);
  caf::anon_send_exit(counter, caf::exit_reason::user_shutdown);
  f.scheduler().run();
}

TEST_CASE("measured: its other messages are handled, and their time is counted") {
  Fixture f;
  Counter counter = f.spawn(true);
  f.scheduler().run();
  const uint64_t before = f.board.figures(ActorBoard::Clock::now()).at("counter").busy_us;
  caf::scoped_actor sender(f.system);
  for (int32_t i = 0; i < 1000; ++i) sender->send(counter, i);
  f.scheduler().run();
  CHECK(f.handled == 1000);
  CHECK(f.board.figures(ActorBoard::Clock::now()).at("counter").busy_us > before);
  caf::anon_send_exit(counter, caf::exit_reason::user_shutdown);
  f.scheduler().run();
}

TEST_CASE("measured: a handler that waits is blocked while it waits, and not after it") {
  ActorBoard board;
  const auto entry = board.add("reader");
  const auto figures = [&] { return board.figures(ActorBoard::Clock::now()).at("reader"); };
  caf::actor_system_config config;
  caf::actor_system system(config);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const Descriptor input(ends[0]), output(ends[1]);  // whose end ends the wait if a check fails
  const Counter reader =
      system.spawn<caf::detached>([&](SelfPointer<Counter, CounterState> self) -> Counter::behavior_type {
        guard(self);
        self->watch(entry);
        return {[fd = input.number()](int32_t) {
          pollfd readable{fd, POLLIN, 0};
          poll_blocked({&readable, 1}, std::chrono::hours(1));
        }};
      });
  caf::scoped_actor test(system);
  test->send(reader, 0);
  while (figures().blocked_us < 5000) std::this_thread::yield();  // seen while the handler runs
  CHECK(figures().busy_us >= 5000);
  REQUIRE(write(output.number(), "x", 1) == 1);
  test->send_exit(reader, caf::exit_reason::user_shutdown);
  test->wait_for(reader);
  const auto later = board.figures(ActorBoard::Clock::now() + std::chrono::seconds(1)).at("reader");
  CHECK(later.blocked_us == figures().blocked_us);
}

TEST_CASE("measured: a wait of a thread that runs no watched actor counts nowhere") {
  Fixture f;
  Counter counter = f.spawn(true);
  f.scheduler().run();
  pollfd nothing{-1, POLLIN, 0};
  CHECK_FALSE(poll_blocked({&nothing, 1}, std::chrono::milliseconds(2)));
  CHECK(f.board.figures(ActorBoard::Clock::now()).at("counter").blocked_us == 0);
  caf::anon_send_exit(counter, caf::exit_reason::user_shutdown);
  f.scheduler().run();
}

TEST_CASE("measured: an actor that is not watched sends itself nothing") {
  Fixture f;
  Counter counter = f.spawn(false);
  f.scheduler().run();
  CHECK_FALSE(f.scheduler().advance_time(std::chrono::seconds(10)));
  caf::anon_send_exit(counter, caf::exit_reason::user_shutdown);
  f.scheduler().run();
}
