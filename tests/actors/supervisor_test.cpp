// The supervisor with workers and inference processes that the test plays, on one thread and with a clock that the test
// advances.
#include "actors/supervisor.h"

#include <functional>
#include <stdexcept>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/spec_fields.h"
#include "actors/stats.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "runtime/caf/system.h"
#include "runtime/stats/bottleneck.h"
#include "runtime/stats/snapshot.h"
#include "sim/fakes.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

class NoSink final : public RunSink {
 public:
  void save(const Checkpoint&) override {}
  void record(const StatsSnapshot&) override {}
  void show(const StatsSnapshot&) override {}
};

// A host of a worker that joins and ignores every other message.
using SilentHost = caf::typed_actor<caf::reacts_to<begin_atom>, caf::reacts_to<InferenceReplaced>,
                                    caf::reacts_to<Credits>, caf::reacts_to<Stop>>;
struct SilentHostState {
  static inline const char* name = "silent host";
  std::vector<uint64_t> numbers;  // its worker number after each join
  uint32_t epoch = 0;             // of the run
};

SpecFields fake_fields() {
  RunContext context;
  context.spec = fake_spec();
  return spec_fields(context);
}

SilentHost::behavior_type silent_host(SelfPointer<SilentHost, SilentHostState> self, SupervisorActor run, bool ready) {
  return {
      [self, run, ready](begin_atom) {
        self->request(run, 10s, JoinRequest{kProtocolVersion, "worker", "test", 1})
            .then(
                [self, ready](const Welcome& welcome) {
                  self->state.numbers.push_back(welcome.member);
                  self->state.epoch = welcome.epoch;
                  if (ready) self->send(welcome.replay, WorkerHello{welcome.member, 1, 8, fake_fields()});
                },
                [](const caf::error&) { FAIL("the join is refused"); });
      },
      [](const InferenceReplaced&) {},
      [](const Credits&) {},
      [](const Stop&) {},
  };
}

// An inference process that ignores every message.
InferenceService::behavior_type silent_service() {
  return {[](const InferenceRequest&) {}, [](const Part&) {}, [](const Pause&) {}};
}
InferenceMember::behavior_type silent_member() {
  return {[](const Invitation&) {}, [](const Expelled&) {}, [](const Stop&) {}};
}

// With `workers` workers of its own the run has no inference actor, so that the workers only wait.
RunConfig small_config(int64_t workers = 0) {
  RunConfig config;
  config.workers.count = workers;
  config.workers.failure_timeout = 0ms;
  config.inference.count = workers == 0 ? 1 : 0;
  config.env.rows = 2;
  config.workers.groups = 1;
  config.rollout.length = 4;
  config.trainer.super_batch = 16;
  config.stop = {.env_steps = 0, .updates = 3, .seconds = 0, .eval_return = 0};
  config.evaluation = {.every_updates = 0, .episodes = 1, .rows = 1, .env_params = "{}"};
  return config;
}

// Throws at its first use, while the supervisor starts.
class BrokenLearner final : public sim::WholeUpdateLearner {
 public:
  std::shared_ptr<const Signature> saved_signature() const override { return nullptr; }
  std::shared_ptr<const Signature> published_signature() const override { throw std::runtime_error("broken learner"); }
  WeightsPtr snapshot(PolicyVersion) const override { return nullptr; }
  std::shared_ptr<const Stager> stager() const override { return nullptr; }
  UpdateReport update_with(StagedBatch&, double) override { return {}; }
  double imitate(StagedBatch&, double) override { return 0; }
  LearnerState save() const override { return {}; }
  void begin_from(const std::map<std::string, Array>&) override {}
  void load(const LearnerState&) override {}
};

struct Run {
  // Making the environments of a worker throws if `can_make_env` returns false.
  explicit Run(
      std::shared_ptr<Learner> learner = nullptr, int64_t workers = 0,
      const std::function<bool()>& can_make_env = [] { return true; }, uint32_t epoch = 0)
      : world(Scenario{.config = small_config(workers)}) {
    open_log(nullptr, {.to_stderr = false});
    register_messages(system_config);
    configure(system_config, {.scheduler = SchedulerKind::single_step, .network_config = {}});
    system = std::make_unique<caf::actor_system>(system_config);
    scheduler = &dynamic_cast<caf::scheduler::test_coordinator&>(system->scheduler());
    auto context = std::make_shared<RunContext>();
    context->config = small_config(workers);
    context->spec = fake_spec();
    context->make_env = [this, can_make_env](const EnvConfig& env) {
      if (!can_make_env()) throw std::runtime_error("no simulator");
      return std::make_unique<FakeEnv>(world, env.rows);
    };
    context->make_evaluation_env = [this](int64_t rows) { return std::make_unique<FakeEnv>(world, rows); };
    context->make_policy = [this] { return fake_policy(world); };
    context->threads = false;
    context->run_id = "this run";
    if (!learner) learner = std::make_shared<FakeLearner>(world, 0);
    ReplayStart start;
    start.version.epoch = epoch;
    RunDependencies dependencies{std::move(learner), start, std::make_shared<NoSink>(),
                                 [this](const RunOutcome& result) {
                                   ++ends;
                                   outcome = result;
                                 }};
    root = system->spawn(supervisor, RunContextPtr(context), std::move(dependencies));
    scheduler->run();
  }
  ~Run() {
    if (!outcome) stop();
    root = nullptr;
    for (SilentHost& host : hosts) caf::anon_send_exit(host, caf::exit_reason::kill);
    hosts.clear();
    for (const caf::actor& actor : receivers) caf::anon_send_exit(actor, caf::exit_reason::kill);
    receivers.clear();
    scheduler->run();
    close_log();
  }
  // `ready`: its environments are made.
  SilentHost add_host(bool ready = true) {
    hosts.push_back(system->spawn(silent_host, root, ready));
    join(hosts.back());
    return hosts.back();
  }
  // Adds an inference process that serves.
  void add_receiver(InferenceIndex inference_index) {
    const InferenceService service = system->spawn(silent_service);
    const InferenceMember host = system->spawn(silent_member);
    state().inference[inference_index] = {service, {}, host, true};
    state().placement(Role::sampling).add_inference(inference_index);
    receivers.push_back(caf::actor_cast<caf::actor>(service));
    receivers.push_back(caf::actor_cast<caf::actor>(host));
  }
  void join(const SilentHost& host) {
    caf::anon_send(host, begin_atom_v);
    scheduler->run();
  }
  // Advances the clock until the run has ended, at most by `most`.
  void wait(std::chrono::milliseconds most) {
    for (std::chrono::milliseconds time{0}; !outcome && time < most; time += 100ms) {
      scheduler->clock().advance_time(100ms);
      scheduler->run();
    }
  }
  // Sends Stop and advances the clock until the run has ended. Returns the time that took.
  std::chrono::milliseconds stop() {
    caf::anon_send(root, Stop{"interrupted"});
    scheduler->run();
    std::chrono::milliseconds time{0};
    for (; !outcome && time < 1min; time += 10ms) {
      scheduler->clock().advance_time(10ms);
      scheduler->run();
    }
    return time;
  }
  template <class State, class Actor>
  State& state_of(const Actor& actor) {
    auto* pointer = caf::actor_cast<caf::strong_actor_ptr>(actor)->get();
    return dynamic_cast<SelfPointer<Actor, State>>(pointer)->state;
  }
  SupervisorState& state() { return state_of<SupervisorState>(root); }

  World world;
  caf::actor_system_config system_config;
  std::unique_ptr<caf::actor_system> system;
  caf::scheduler::test_coordinator* scheduler = nullptr;
  SupervisorActor root;
  std::vector<SilentHost> hosts;
  std::vector<caf::actor> receivers;
  std::optional<RunOutcome> outcome;
  int ends = 0;  // how often the supervisor reported the end of the run
};

}  // namespace

TEST_CASE("supervisor: the end waits kFarewell in total for workers that do not stop") {
  Run run;
  for (int i = 0; i < 3; ++i) run.add_host();
  const auto time = run.stop();
  REQUIRE(run.outcome);
  CHECK(run.outcome->checkpoint_written);
  CHECK(run.outcome->error == "");
  CHECK(time >= kFarewell);
  CHECK(time < kFarewell + 200ms);
}

TEST_CASE("supervisor: a run without silent workers ends without a wait") {
  Run run;
  CHECK(run.stop() < 200ms);
  REQUIRE(run.outcome);
  CHECK(run.outcome->checkpoint_written);
}

TEST_CASE("supervisor: when a host joins again, its former worker is removed completely") {
  Run run;
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
  Run run;
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

namespace {

// The number of times that `text` is in the log that a test keeps in memory.
size_t count_in(const MemoryDisk& disk, const std::string& text) {
  const std::string log = disk.read("log");
  size_t count = 0;
  for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("supervisor: 100 workers that join at once, and leave at once, have a line each") {
  MemoryDisk disk;
  Run run;
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
  Run run;
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
    Run run(nullptr, 1, [] { return true; }, epoch);
    CHECK(run.state_of<SilentHostState>(run.add_host()).epoch == epoch);
    REQUIRE(!run.world.reset_seeds.empty());
    seeds[epoch == 0 ? 0 : 1] = run.world.reset_seeds.front();
  }
  CHECK(seeds[0] == RunConfig().seed);
  CHECK(seeds[1] != seeds[0]);
}

TEST_CASE("supervisor: a process that belongs to another run may not join") {
  Run run;
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

TEST_CASE("supervisor: an exception during its start ends the run with the reason and all actors") {
  Run run(std::make_shared<BrokenLearner>());
  REQUIRE(run.outcome);
  CHECK(run.outcome->error == "the supervisor failed: broken learner");
  CHECK(run.ends == 1);
  CHECK(run.system->registry().running() == 0);
}

TEST_CASE("supervisor: an exception during the run ends it with the reason and all its actors") {
  Run run;
  const SilentHost host = run.add_host();
  caf::anon_send(run.root, Stop{"interrupted"});
  run.scheduler->run();
  REQUIRE(!run.outcome);                  // the run still waits for the host
  caf::anon_send(run.root, idle_atom_v);  // invalid while the run stops, so its handler throws
  run.scheduler->run();
  REQUIRE(run.outcome);
  CHECK(run.outcome->error.find("the supervisor failed: ") == 0);
  CHECK(run.ends == 1);
  CHECK(run.system->registry().running() == 1);  // the host, which is not an actor of the run
}

TEST_CASE("supervisor: a receiver that is lost while the run stops does not delay the end") {
  Run run;
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
  Run run;
  run.add_receiver(7);
  caf::anon_send(run.root, ReceiverLost{7, "a transfer broke"});
  run.scheduler->run();
  CHECK(!run.state().inference.contains(7));
  CHECK(run.stop() < 200ms);  // the end does not wait for it
}

TEST_CASE("supervisor: ReceiverLost does not remove an inference actor of the run's own process") {
  Run run;
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

TEST_CASE("supervisor: when the only worker ends too often, the run ends with its last error") {
  Run run(nullptr, 1, [] { return false; });
  run.wait(11min);
  REQUIRE(run.outcome);
  CHECK(run.outcome->error ==
        "worker 100 and its predecessors ended 101 times within 10 minutes, the last time with: no simulator");
}

TEST_CASE("supervisor: a worker of the run that cannot score answers ends the run at once with the reason") {
  Run run(nullptr, 1);
  REQUIRE(run.state().members.size() == 1);
  const auto worker = caf::actor_cast<caf::strong_actor_ptr>(run.state().members.begin()->second.actor);
  worker->enqueue(nullptr, caf::make_message_id(caf::message_priority::high),
                  caf::make_message(caf::exit_msg{caf::actor_addr{}, make_error(Fault::score_failed, "no such table")}),
                  nullptr);
  run.scheduler->run();
  run.wait(10s);
  REQUIRE(run.outcome);
  CHECK(run.outcome->error == "no such table");
}

TEST_CASE("supervisor: a worker that ends too often is not restarted while others remain") {
  int made = 0;
  Run run(nullptr, 2, [&made] { return ++made == 1; });  // the second worker never gets an environment
  run.wait(11min);
  CHECK(!run.outcome);
  CHECK(run.state().members.size() == 1);
  CHECK(run.state().resting_workers.empty());
}

TEST_CASE("supervisor: an inference actor that ends too often ends the run") {
  Run run;
  for (int i = 0; i < 102 && !run.outcome; ++i) {
    for (const auto& [inference_index, inference] : run.state().inference)
      caf::anon_send_exit(inference.local, caf::exit_reason::kill);
    run.scheduler->run();
    run.wait(5100ms);  // longer than the longest pause
  }
  REQUIRE(run.outcome);
  CHECK(run.outcome->error.starts_with(
      "inference actor 100 and its predecessors ended 101 times within 10 minutes, the last time with: "));
}
