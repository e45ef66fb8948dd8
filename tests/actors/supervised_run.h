#pragma once
// A supervisor with workers that do not answer.

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
#include "actors/supervisor.h"
#include "runtime/base/log.h"
#include "runtime/caf/system.h"
#include "runtime/stats/snapshot.h"
#include "sim/fake_learner.h"
#include "tests/support/test.h"

namespace troupe::test {

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

inline SpecFields fake_fields() {
  RunContext context;
  context.spec = sim::fake_spec();
  return spec_fields(context);
}

inline SilentHost::behavior_type silent_host(SelfPointer<SilentHost, SilentHostState> self, SupervisorActor run,
                                             bool ready) {
  return {
      [self, run, ready](begin_atom) {
        self->request(run, std::chrono::seconds(10), JoinRequest{kProtocolVersion, "worker", "test", 1})
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
inline InferenceService::behavior_type silent_service() {
  return {[](const InferenceRequest&) {}, [](const Part&) {}, [](const Pause&) {}};
}
inline InferenceMember::behavior_type silent_member() {
  return {[](const Invitation&) {}, [](const Expelled&) {}, [](const Stop&) {}};
}

// With `workers` workers of its own the run has no inference actor, so that the workers only wait.
inline RunConfig small_config(int64_t workers = 0) {
  RunConfig config;
  config.workers.count = workers;
  config.workers.failure_timeout = std::chrono::milliseconds(0);
  config.inference.count = workers == 0 ? 1 : 0;
  config.env.rows = 2;
  config.workers.groups = 1;
  config.rollout.length = 4;
  config.trainer.super_batch = 16;
  config.stop = {.env_steps = 0, .updates = 3, .seconds = 0, .eval_return = 0};
  config.evaluation = {.every_updates = 0, .episodes = 1, .rows = 1, .env_params = "{}"};
  return config;
}

struct SupervisedRun {
  // Making the environments of a worker throws if `can_make_env` returns false.
  explicit SupervisedRun(
      std::shared_ptr<Learner> learner = nullptr, int64_t workers = 0,
      const std::function<bool()>& can_make_env = [] { return true; }, uint32_t epoch = 0)
      : SupervisedRun(std::move(learner), small_config(workers), can_make_env, epoch) {}
  SupervisedRun(
      std::shared_ptr<Learner> learner, const RunConfig& config,
      const std::function<bool()>& can_make_env = [] { return true; }, uint32_t epoch = 0)
      : world(sim::Scenario{.config = config}) {
    open_log(nullptr, {.to_stderr = false});
    register_messages(system_config);
    configure(system_config, {.scheduler = SchedulerKind::single_step, .network_config = {}});
    system = std::make_unique<caf::actor_system>(system_config);
    scheduler = &dynamic_cast<caf::scheduler::test_coordinator&>(system->scheduler());
    auto context = std::make_shared<RunContext>();
    context->config = config;
    context->rank_processes = config.trainer.ranks > 1;
    context->spec = sim::fake_spec();
    context->make_env = [this, can_make_env](const EnvConfig& env) {
      if (!can_make_env()) throw std::runtime_error("no simulator");
      return std::make_unique<sim::FakeEnv>(world, env.rows);
    };
    context->make_evaluation_env = [this](int64_t rows) { return std::make_unique<sim::FakeEnv>(world, rows); };
    context->make_policy = [this] { return sim::fake_policy(world); };
    context->threads = false;
    context->run_id = "this run";
    if (!learner) learner = std::make_shared<sim::FakeLearner>(world, 0);
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
  ~SupervisedRun() {
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
    for (std::chrono::milliseconds time{0}; !outcome && time < most; time += std::chrono::milliseconds(100)) {
      scheduler->clock().advance_time(std::chrono::milliseconds(100));
      scheduler->run();
    }
  }
  // Sends Stop and advances the clock until the run has ended. Returns the time that took.
  std::chrono::milliseconds stop() {
    caf::anon_send(root, Stop{"interrupted"});
    scheduler->run();
    std::chrono::milliseconds time{0};
    for (; !outcome && time < std::chrono::minutes(1); time += std::chrono::milliseconds(10)) {
      scheduler->clock().advance_time(std::chrono::milliseconds(10));
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

  sim::World world;
  caf::actor_system_config system_config;
  std::unique_ptr<caf::actor_system> system;
  caf::scheduler::test_coordinator* scheduler = nullptr;
  SupervisorActor root;
  std::vector<SilentHost> hosts;
  std::vector<caf::actor> receivers;
  std::optional<RunOutcome> outcome;
  int ends = 0;  // how often the supervisor reported the end of the run
};

}  // namespace troupe::test
