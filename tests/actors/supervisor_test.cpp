// The supervisor with workers and inference processes that the test plays, on one thread and with a clock that the test
// advances.
#include "actors/supervisor.h"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/rank_trainer.h"
#include "actors/stats.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "runtime/caf/system.h"
#include "runtime/stats/bottleneck.h"
#include "runtime/stats/snapshot.h"
#include "sim/fakes.h"
#include "tests/actors/supervised_run.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

// The number of times that `text` is in the log that a test keeps in memory.
size_t count_in(const MemoryDisk& disk, const std::string& text) {
  const std::string log = disk.read("log");
  size_t count = 0;
  for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("supervisor: the end waits kFarewell in total for workers that do not stop") {
  SupervisedRun run;
  for (int i = 0; i < 3; ++i) run.add_host();
  const auto time = run.stop();
  REQUIRE(run.outcome);
  CHECK(run.outcome->checkpoint_written);
  CHECK(run.outcome->error == "");
  CHECK(time >= kFarewell);
  CHECK(time < kFarewell + 200ms);
}

TEST_CASE("supervisor: a run without silent workers ends without a wait") {
  SupervisedRun run;
  CHECK(run.stop() < 200ms);
  REQUIRE(run.outcome);
  CHECK(run.outcome->checkpoint_written);
}

TEST_CASE("supervisor: when a host joins again, its former worker is removed completely") {
  SupervisedRun run;
  const SilentHost host = run.add_host();
  for (int i = 0; i < 4; ++i) run.join(host);
  CHECK(run.state_of<SilentHostState>(host).numbers == std::vector<uint64_t>{0, 1, 2, 3, 4});
  SupervisorState& state = run.state();
  CHECK(state.members.size() == 1);
  for (uint64_t former = 0; former < 4; ++former) CHECK(!state.placement(Role::sampling).inference_of(former));
  CHECK(state.placement(Role::sampling).inference_of(4));
  caf::anon_send_exit(host, caf::exit_reason::kill);
  run.scheduler->run();
  CHECK(state.members.empty());
  CHECK(!state.placement(Role::sampling).inference_of(4));
}

TEST_CASE("supervisor: stats knows the workers that were started or have joined and are not ready") {
  SupervisedRun run;
  const auto view = [&] {
    return run.state_of<StatsState>(run.state().stats).core->take_view(run.scheduler->clock().now());
  };
  CHECK(view().workers_starting == 0);
  const SilentHost slow = run.add_host(/*ready=*/false);
  CHECK(view().workers_starting == 1);
  CHECK(find_bottleneck(view()).what == "starting environments");
  const SilentHost fast = run.add_host();
  CHECK(view().workers_up == 1);
  CHECK(view().workers_starting == 1);
  for (const SilentHost& host : {slow, fast}) caf::anon_send_exit(host, caf::exit_reason::kill);
  run.scheduler->run();
  CHECK(view().workers_starting == 0);
  CHECK(find_bottleneck(view()).what == "waiting for workers");
}

TEST_CASE("supervisor: 100 workers that join at once, and leave at once, have a line each") {
  MemoryDisk disk;
  SupervisedRun run;
  open_log(disk.open_append("log"), {LogLevel::info, LogLevel::error, false});
  for (int i = 0; i < 100; ++i) run.add_host();
  CHECK(count_in(disk, " connected from ") == 100);
  for (const SilentHost& host : run.hosts) caf::anon_send_exit(host, caf::exit_reason::kill);
  run.scheduler->run();
  CHECK(count_in(disk, " ended: ") == 100);
  CHECK(count_in(disk, "left out before") == 0);
}

TEST_CASE("supervisor: of workers that join and are lost again and again the log has some lines, and their number") {
  MemoryDisk disk;
  SupervisedRun run;
  open_log(disk.open_append("log"), {LogLevel::info, LogLevel::error, false});
  const SilentHost again = run.add_host();
  for (int i = 0; i < 400; ++i) run.join(again);
  for (int i = 0; i < 600; ++i) caf::anon_send_exit(run.add_host(), caf::exit_reason::kill);
  run.scheduler->run();
  CHECK(run.state_of<SilentHostState>(again).numbers.back() == 400);
  CHECK(run.state().members.size() == 1);  // the lines are left out, nothing else
  CHECK(run.state().next_worker == 1001);
  CHECK(count_in(disk, " connected from ") == 256);
  CHECK(count_in(disk, " ended: ") + count_in(disk, "joins again") == 256);
  run.scheduler->clock().advance_time(1s);
  run.join(again);
  CHECK(count_in(disk, "worker 1001 connected from test pid 1 (left out before it: 745 lines)") == 1);
  CHECK(count_in(disk, "worker 400 ended; its process joins again (left out before it: 744 lines)") == 1);
}

TEST_CASE("supervisor: a worker of another process is told the epoch of the run, and its own workers get it") {
  uint64_t seeds[2] = {0, 0};
  for (const uint32_t epoch : {0u, 3u}) {
    SupervisedRun run(nullptr, 1, [] { return true; }, epoch);
    CHECK(run.state_of<SilentHostState>(run.add_host()).epoch == epoch);
    REQUIRE(!run.world.reset_seeds.empty());
    seeds[epoch == 0 ? 0 : 1] = run.world.reset_seeds.front();
  }
  CHECK(seeds[0] == RunConfig().seed);
  CHECK(seeds[1] != seeds[0]);
}

TEST_CASE("supervisor: a rank process that joins again takes its own place, and no other process does") {
  RunConfig config = small_config();
  config.trainer.shards = config.trainer.ranks = 2;
  config.trainer.super_batch = 32;
  SupervisedRun run(nullptr, config);
  const caf::scoped_actor host(*run.system), other(*run.system);
  // Why the request is refused; empty if it is not.
  const auto ask = [&](const caf::scoped_actor& from, const auto& request, const auto& taken) {
    std::string refused;
    auto asked = from->request(run.root, 10s, request);
    run.scheduler->run();
    asked.receive(taken, [&](const caf::error& error) { refused = describe(error); });
    return refused;
  };
  const auto join = [&](const caf::scoped_actor& from) {
    return ask(from, JoinRequest{kProtocolVersion, kRankKind, "test", 1}, [](const Welcome&) {});
  };
  CHECK(join(host) == "");
  const RankActor rank =
      run.system->spawn(rank_trainer, run.state().context, std::make_shared<FakeLearner>(run.world, 0, /*leads=*/false),
                        GradientBackendTowards());
  CHECK(ask(host, RankReady{rank, *fake_signature(), fake_fields()}, [] {}) == "");
  CHECK(join(other) == "the run has all of its 2 ranks");
  CHECK(join(host) == "");
  caf::anon_send(rank, Stop{"the end"});
}

TEST_CASE("supervisor: a process that belongs to another run may not join") {
  SupervisedRun run;
  std::map<std::string, std::string> refused;
  int joined = 0;
  for (const std::string id : {"", "this run", "another run"})
    run.receivers.push_back(run.system->spawn([&, id](caf::event_based_actor* self) {
      self->request(run.root, 10s, JoinRequest{kProtocolVersion, "worker", "test", 1, id})
          .then([&](const Welcome& welcome) { joined += welcome.run == "this run"; },
                [&, id](const caf::error& error) {
                  CHECK(fault_of(error) == Fault::not_ready);
                  refused[id] = describe(error);
                });
    }));
  run.scheduler->run();
  CHECK(joined == 2);
  REQUIRE(refused.size() == 1);
  CHECK(refused.at("another run").find("another run listens there") != std::string::npos);
}

TEST_CASE("supervisor: a receiver that is lost while the run stops does not delay the end") {
  SupervisedRun run;
  run.add_receiver(7);  // it ignores Stop, so the run has not ended when ReceiverLost arrives
  caf::anon_send(run.root, Stop{"interrupted"});
  run.scheduler->run();
  REQUIRE(!run.outcome);
  REQUIRE(run.state().phase == SupervisorState::Phase::stopping);
  caf::anon_send(run.root, ReceiverLost{7, "a transfer broke"});
  run.scheduler->run();
  CHECK(run.stop() < kFarewell + 200ms);
  REQUIRE(run.outcome);
  CHECK(run.outcome->error == "");
}

TEST_CASE("supervisor: a receiver that is lost during the run is removed") {
  SupervisedRun run;
  run.add_receiver(7);
  caf::anon_send(run.root, ReceiverLost{7, "a transfer broke"});
  run.scheduler->run();
  CHECK(!run.state().inference.contains(7));
  CHECK(run.stop() < 200ms);  // the end does not wait for it
}

TEST_CASE("supervisor: ReceiverLost does not remove an inference actor of the run's own process") {
  SupervisedRun run;
  REQUIRE(run.state().inference.size() == 1);
  const InferenceIndex own = run.state().inference.begin()->first;
  caf::anon_send(run.root, ReceiverLost{own, "a transfer broke"});
  run.scheduler->run();
  CHECK(run.state().inference.contains(own));
  run.stop();
  REQUIRE(run.outcome);
  CHECK(run.outcome->error == "");
  CHECK(run.system->registry().running() == 0);
}
