#include "actors/stats.h"

#include "tests/actors/one_actor.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Replay tells of an update with this KL divergence; above 1 in two updates raises kl_extreme.
ReplayReport update_with_kl(uint64_t number, double kl) {
  ReplayReport report;
  report.update.emplace();
  report.update->version = {0, number};
  report.update->report = std::make_shared<const UpdateReport>(UpdateReport{1, 0, 1, {{"kl", kl}}});
  return report;
}

RunConfig ending_at_collapse(bool ends) {
  RunConfig config;
  config.stop.on_collapse = ends;
  return config;
}

struct Fixture : OneActor {
  explicit Fixture(const RunConfig& config = {}) : OneActor(config) {
    stats = keep(system->spawn(stats_actor, RunContextPtr(context), peers.as<RecorderActor>(), ReplayStart{},
                               peers.as<caf::typed_actor<caf::reacts_to<Collapsed>>>()));
    run();
  }
  void report(const Peer& from, uint64_t worker, uint64_t env_failures) {
    WorkerReport message;
    message.worker = worker;
    message.env_failures = env_failures;
    from.tell(stats, message);
    run();
  }
  void serves(const Peer& from, InferenceIndex inference_index, uint64_t rows) {
    InferenceReport message;
    message.inference_index = inference_index;
    message.rows = rows;
    message.batch_rows = Array(DType::i32, {0});
    message.latency_us = Array(DType::f32, {0});
    from.tell(stats, message);
    from.tell(stats, Applied{inference_index, {0, 0}});
    run();
  }
  StatsState& state() { return state_of<StatsState>(stats); }
  StatsSnapshot view() { return state().core->take_view({}); }

  Peer peers = add_peer(), first = add_peer(), second = add_peer();
  StatsActor stats;
};

}  // namespace

TEST_CASE("stats: an actor can report for one worker only, and only one actor for a worker") {
  Fixture f;
  f.report(f.first, 0, 1);
  for (uint64_t invented = 1000; invented < 1100; ++invented) f.report(f.first, invented, 1);
  f.report(f.second, 0, 50);
  CHECK(f.view().env_failures.begin()->second == 1);
  f.report(f.second, 1, 7);
  CHECK(f.view().env_failures.begin()->second == 8);
  CHECK(f.state().worker_of.size() == 2);
}

TEST_CASE("stats: an actor of the run's process does not report as a process that has joined") {
  Fixture f;
  f.first.tell(f.stats, ProcessReport{{{"worker", 1, 2, 3, 4}}});
  f.run();
  CHECK_FALSE(f.view().joined_actors);
}

TEST_CASE("stats: an actor can report for one receiver only, and only one actor for a receiver") {
  Fixture f;
  f.serves(f.first, 0, 1);
  for (uint64_t invented = 1000; invented < 1100; ++invented) f.serves(f.first, invented, 1);
  f.serves(f.second, 0, 50);
  CHECK(f.view().rows_served == std::map<std::string, uint64_t>{{"inference 0", 1}});
  CHECK(f.view().inference_up == 1);
  f.serves(f.second, 1, 7);
  CHECK(f.view().rows_served == std::map<std::string, uint64_t>{{"inference 0", 1}, {"inference 1", 7}});
}

TEST_CASE("stats: of an actor that has ended only its counts are kept") {
  Fixture f;
  f.report(f.first, 0, 1);
  f.serves(f.second, 0, 1);
  f.kill(f.first);
  f.kill(f.second);
  CHECK(f.state().worker_of.empty());
  CHECK(f.state().receiver_of.empty());
  CHECK(f.view().env_failures.begin()->second == 1);
}

TEST_CASE("stats: the clients of the port are told at once of an evaluation that has ended or failed") {
  Fixture f;
  f.first.tell(f.stats, Evaluation{.episodes = 2, .error = "no row"});
  f.first.tell(f.stats, Evaluation{.episodes = 3, .return_mean = 7});
  f.run();
  const std::vector<SnapshotMessage>& told = f.peers.heard->snapshots;
  REQUIRE(told.size() == 2);
  for (const SnapshotMessage& message : told) {
    CHECK(message.use == SnapshotUse::port);
    CHECK(message.snapshot->failed_evaluations.count == 1);
    CHECK(message.snapshot->failed_evaluations.episodes == 2);
    CHECK(message.snapshot->failed_evaluations.error == "no row");
  }
  CHECK(!told[0].snapshot->evaluation);
  CHECK(told[1].snapshot->evaluation);
}

TEST_CASE("stats: a point of the warm-up's curves is sent with the figures of its step") {
  Fixture f;
  f.first.tell(f.stats, WarmupMessage{{.step = 3, .of = 9, .loss = 1.5}, /*point=*/false});
  f.first.tell(f.stats, WarmupMessage{{.step = 4, .of = 9, .loss = 1.25}, /*point=*/true});
  f.run();
  const std::vector<SnapshotMessage>& told = f.peers.heard->snapshots;
  REQUIRE(told.size() == 1);
  CHECK(told[0].use == SnapshotUse::warmup);
  CHECK(told[0].snapshot->warmup->step == 4);
  CHECK(told[0].snapshot->warmup->loss == 1.25);
  CHECK(told[0].snapshot->updates == 0);
  CHECK(told[0].snapshot->env_steps == 0);
}

TEST_CASE("stats: progress counts from the start of training, elapsed time from the start of the process") {
  struct TimedRun : OneActor {
    TimedRun() : OneActor(timed()) {}
    static RunConfig timed() {
      RunConfig config;
      config.stop.env_steps = 0;
      config.stop.seconds = 2;
      return config;
    }
  } f;
  const auto now = f.system->clock().now();
  f.context->started = now - std::chrono::seconds(1);
  const Peer peer = f.add_peer();
  const StatsActor stats =
      f.keep(f.system->spawn(stats_actor, RunContextPtr(f.context), peer.as<RecorderActor>(), ReplayStart{},
                             peer.as<caf::typed_actor<caf::reacts_to<Collapsed>>>()));
  f.run();
  const StatsSnapshot view = f.state_of<StatsState>(stats).core->take_view(now + std::chrono::seconds(1));
  CHECK(view.progress == 0.5);
  CHECK(view.elapsed_seconds == 2);
}

TEST_CASE("stats: with stop.on_collapse the supervisor is told once of an alarm of level error") {
  Fixture f(ending_at_collapse(true));
  f.first.tell(f.stats, update_with_kl(1, 5));
  f.run();
  CHECK(f.peers.heard->collapsed.empty());
  f.first.tell(f.stats, update_with_kl(2, 5));
  f.run();
  REQUIRE(f.peers.heard->collapsed.size() == 1);
  CHECK(f.peers.heard->collapsed[0].alarm == "kl_extreme");
  f.first.tell(f.stats, update_with_kl(3, 5));
  f.run();
  CHECK(f.peers.heard->collapsed.size() == 1);
}

TEST_CASE("stats: without stop.on_collapse alarms end nothing") {
  Fixture f(ending_at_collapse(false));
  for (uint64_t number = 1; number <= 10; ++number) f.first.tell(f.stats, update_with_kl(number, 5));
  f.run();
  CHECK(f.peers.heard->collapsed.empty());
}

TEST_CASE("stats: an alarm that was raised is in the next view, once") {
  Fixture f;
  for (uint64_t number = 1; number <= 2; ++number) f.first.tell(f.stats, update_with_kl(number, 5));
  f.run();
  std::vector<std::string> names;
  for (const RaisedAlarm& raised : f.view().raised) names.push_back(raised.name);
  CHECK(names == std::vector<std::string>{"kl_extreme"});
  CHECK(f.view().raised.empty());
}
