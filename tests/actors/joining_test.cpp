#include "actors/joining.h"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "tests/actors/one_actor.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

struct Driven {
  Joining joining;
  std::chrono::steady_clock::time_point now{1h};

  // The pause after the host lost a membership of this length.
  std::chrono::milliseconds lost_after(std::chrono::milliseconds membership) {
    taken_in(joining);
    joining.member_since = now;
    now += membership;
    return pause();
  }
  std::chrono::milliseconds pause() {
    const auto pause = next_pause(joining, now);
    REQUIRE(pause);
    now += *pause;
    return *pause;
  }
};

// A host whose memberships are never used, like an inference process that never receives weights.
using Host = caf::typed_actor<caf::reacts_to<begin_atom>>;
struct HostState {
  static inline const char* name = "host";
  Joining joining;
};

// The join server of the run with this identity.
JoinService::behavior_type open_server(JoinService::pointer, int* joins, const std::string& run) {
  return {
      [joins, run](const JoinRequest& request) -> caf::result<Welcome> {
        if (!request.run.empty() && request.run != run)
          return make_error(Fault::not_ready, "another run listens there");
        ++*joins;
        Welcome welcome;
        welcome.run = run;
        return welcome;
      },
      [](const ServeRequest&) {},
      [](const RankReady&) {},
      [](const Serving&) {},
  };
}

struct HostFixture : OneActor {
  HostFixture() : OneActor(RunConfig{}) {
    Joining joining;
    joining.run = {.local = [this] { return server; },
                   .patience = {20s, 20s},
                   .on_news =
                       [this](const JoinNews& one) {
                         if (one.kind == JoinNews::Kind::lost) ++losses_told;
                         told += one.text + "\n";
                         gave_up = gave_up || one.kind == JoinNews::Kind::gave_up;
                       }};
    joining.on_lost = [](const std::string&) {};
    joining.on_end = [this](const std::string& error) { ended_with = error; };
    host = keep(system->spawn([joining](Host::stateful_pointer<HostState> self) -> Host::behavior_type {
      self->state.joining = joining;
      self->state.joining.on_welcome = [self](const Welcome&) { joined(self, "inference 0", RunConfig{}); };
      self->set_down_handler([self](const caf::down_msg& down) { on_server_down(self, down); });
      self->send(self, begin_atom_v);
      return {[self](begin_atom) { begin_joining(self); }};
    }));
  }
  void open(const std::string& identity = "first") {
    server = keep(system->spawn(open_server, &joins, identity));
    run();
  }
  void close() {
    caf::anon_send_exit(server, caf::exit_reason::kill);
    server = nullptr;
    run();
  }

  JoinService server;
  Host host;
  int joins = 0, losses_told = 0;
  bool gave_up = false;
  std::string told;
  std::optional<std::string> ended_with;
};

}  // namespace

TEST_CASE("joining: the waiting time restarts with the loss of a membership that was never used") {
  HostFixture f;
  f.open();
  for (int loss = 1; loss <= 3; ++loss) {
    REQUIRE(f.joins == loss);
    f.pass(31s);  // longer than the patience of 20 s
    f.close();
    CHECK(f.losses_told == loss);
    f.open();
    f.pass(3s);
    REQUIRE_FALSE(f.ended_with);
  }
  f.close();
  for (int i = 0; i < 30; ++i) f.pass(1s);
  REQUIRE(f.ended_with);
  CHECK(f.ended_with->find("gave up after 20 s") != std::string::npos);
  CHECK(f.gave_up);
}

TEST_CASE("joining: a host that was a member of a run joins no other one at the same address") {
  HostFixture f;
  f.open("first");
  REQUIRE(f.joins == 1);
  f.close();
  f.open("second");
  for (int i = 0; i < 10; ++i) f.pass(1s);
  CHECK(f.joins == 1);
  CHECK(f.told.find("another run listens there; trying again") != std::string::npos);
  CHECK(f.told.find("another run listens there") == f.told.rfind("another run listens there"));  // said once
  f.close();
  f.open("first");  // resumed
  f.pass(4s);
  CHECK(f.joins == 2);
}

TEST_CASE("joining: a worker that ends soon after each join pauses for longer each time") {
  Driven host;
  for (const auto pause : {100ms, 200ms, 400ms, 800ms, 1600ms, 3000ms, 3000ms}) CHECK(host.lost_after(50ms) == pause);
  CHECK(host.lost_after(9s) == 3000ms);
  CHECK(host.lost_after(29s) == 3000ms);  // less than ten times its pause
  CHECK(host.lost_after(30s) == 100ms);
  CHECK(host.lost_after(1h) == 100ms);
}

TEST_CASE("joining: an attempt ends with the waiting time, which starts with the first attempt") {
  Driven host;
  host.joining.run.patience = {.at_start = 7s, .after_loss = 20s};
  CHECK(attempt_deadline(host.joining, host.now) == kJoinDeadline);
  host.now += 5s;  // an attempt without an answer
  CHECK(host.pause() == 100ms);
  CHECK(attempt_deadline(host.joining, host.now) == 1900ms);
  host.now += 1900ms;
  CHECK_FALSE(next_pause(host.joining, host.now));
  CHECK(attempt_deadline(host.joining, host.now) == kLeastJoinDeadline);
  CHECK(host.lost_after(1s) == 200ms);
  CHECK(attempt_deadline(host.joining, host.now) == kJoinDeadline);
  host.joining = {.run = {.patience = {0s, 0s}}};
  CHECK(attempt_deadline(host.joining, host.now) == kJoinDeadline);  // without patience there is one attempt
}

TEST_CASE("joining: the waiting time restarts with each loss, even if the pauses add up to more") {
  Driven host;
  for (int i = 0; i < 1000; ++i) host.lost_after(50ms);  // in total longer than the patience
  const auto lost_at = host.now;
  host.lost_after(50ms);
  while (next_pause(host.joining, host.now)) host.now += 3s;
  CHECK(host.now - lost_at >= host.joining.run.patience.after_loss);
  CHECK(host.now - lost_at < host.joining.run.patience.after_loss + 10s);
}
