// Receivers of weights that do not answer, fall behind or are gone: what the publisher and stats do.
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/publisher.h"
#include "actors/stats_core.h"
#include "runtime/caf/system.h"
#include "runtime/weights/sender.h"
#include "tests/actors/weight_plane.h"
#include "tests/runtime/weights/weight_fixture.h"
#include "tests/support/first_action.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

struct Received {
  std::vector<Invitation> invitations;
  std::vector<ReceiverLost> lost;
};

InferenceMember::behavior_type silent_host(InferenceMember::pointer, Received* received) {
  return {[received](const Invitation& invitation) { received->invitations.push_back(invitation); },
          [](const Expelled&) {}, [](const Stop&) {}};
}

caf::typed_actor<caf::reacts_to<ReceiverLost>>::behavior_type loss_listener(
    caf::typed_actor<caf::reacts_to<ReceiverLost>>::pointer, Received* received) {
  return {[received](const ReceiverLost& lost) { received->lost.push_back(lost); }};
}

UpdateMessage update_to(uint64_t number) {
  UpdateMessage update;
  update.version = {0, number};
  update.report = std::make_shared<const UpdateReport>();
  return update;
}

}  // namespace

TEST_CASE("publisher: a receiver that never answers is removed, and the loss is reported once") {
  OneThread thread;
  Received received;
  const auto signature = signature_of(kFloats);
  auto context = std::make_shared<RunContext>();
  context->threads = false;
  auto backend = make_in_process_backend();
  context->make_group_backend = [backend](const std::string&) { return backend; };
  const PublisherActor actor = thread.system().spawn(
      publisher, PublisherDependencies{context, signature, thread.system().spawn(loss_listener, &received)});
  caf::anon_send(actor, WeightsMessage{weights_of(signature, {0, 3})});
  caf::anon_send(actor, ReceiverJoined{5, thread.system().spawn(silent_host, &received), "127.0.0.1"});
  REQUIRE(thread.until([&] { return !received.lost.empty(); }));
  REQUIRE(received.invitations.size() == 1);
  CHECK(received.invitations[0].inference_index == 5);
  CHECK(received.invitations[0].rendezvous.rank == 1);
  CHECK(received.lost[0].inference_index == 5);
  CHECK(received.lost[0].why.find("rank 1") != std::string::npos);
  caf::anon_send(actor, WeightsMessage{weights_of(signature, {0, 4})});
  thread.settle();
  CHECK(received.lost.size() == 1);
  caf::anon_send(actor, Stop{"the test ends"});
  thread.settle();
}

TEST_CASE("publisher: if no backend can be made, a remote receiver is reported lost with the reason") {
  OneThread thread;
  Received received;
  auto context = std::make_shared<RunContext>();
  context->threads = false;
  context->make_group_backend = [](const std::string& address) -> std::shared_ptr<GroupBackend> {
    throw ConfigError(address + ": cannot be bound");
  };
  const PublisherActor actor = thread.system().spawn(
      publisher, PublisherDependencies{context, signature_of(1), thread.system().spawn(loss_listener, &received)});
  caf::anon_send(actor, ReceiverJoined{5, thread.system().spawn(silent_host, &received), "10.1.1.1"});
  REQUIRE(thread.until([&] { return !received.lost.empty(); }));
  CHECK(received.lost[0].why.find("10.1.1.1: cannot be bound") != std::string::npos);
  caf::anon_send(actor, Stop{"the test ends"});
  thread.settle();
}

// The lines about alarms after one report.
std::vector<std::string> lines_of_view(StatsCore& core) {
  core.take_view({});
  std::vector<std::string> lines;
  for (const auto& [raised, line] : core.take_alarm_lines()) lines.push_back(line);
  return lines;
}

TEST_CASE("stats: a receiver that falls behind raises one alarm, and another only after it has caught up") {
  const StatsCore::Clock::time_point now;
  StatsCore core(RunConfig{}, false, now);
  core.add(Applied{3, {0, 0}}, {});
  CHECK(lines_of_view(core).empty());
  core.add(update_to(2), now);
  CHECK(lines_of_view(core).empty());  // behind in one check only
  core.add(update_to(4), now);
  const auto lines = lines_of_view(core);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] ==
        "alarm receiver_behind (warning) at update 4: inference 3 falls behind: it applied version 0.0, 4 before the "
        "newest: look at its process and its connection");
  core.add(update_to(6), now);
  CHECK(lines_of_view(core).empty());
  CHECK(core.take_view(now).weights_behind.at("inference 3") == 6);
  core.add(Applied{3, {0, 6}}, {});
  std::vector<std::string> over;
  for (uint32_t look = 0; look < kLeastClear; ++look) {
    CHECK(over.empty());
    over = lines_of_view(core);
  }
  CHECK(over == std::vector<std::string>{"alarm receiver_behind is over at update 6"});
  core.add(update_to(8), now);
  lines_of_view(core);
  CHECK(lines_of_view(core).size() == 1);  // behind, and it has applied nothing since
}

TEST_CASE("stats: a receiver that is gone is neither behind nor an alarm") {
  const StatsCore::Clock::time_point now;
  StatsCore core(RunConfig{}, false, now);
  core.add(Applied{3, {0, 0}}, {});
  core.add(ReceiverGone{3});
  core.add(update_to(9), now);
  for (int look = 0; look < 4; ++look) CHECK(lines_of_view(core).empty());
  CHECK(core.take_view(now).weights_behind.empty());
}
