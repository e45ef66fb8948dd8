// If a saved state does not fit its actor, a deterministic run ends with the reason. An actor that began without its
// state would make another run than the one that was interrupted.
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/deterministic_run.h"
#include "actors/supervisor.h"
#include "runtime/base/log.h"
#include "runtime/caf/system.h"
#include "runtime/stats/snapshot.h"
#include "sim/fake_learner.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::sim;

namespace {

class NoSink final : public RunSink {
 public:
  void save(const Checkpoint&) override {}
  void record(const StatsSnapshot&) override {}
  void show(const StatsSnapshot&) override {}
};

RunConfig small_config() {
  RunConfig config;
  config.deterministic = true;
  config.env.rows = 2;
  config.rollout.length = 4;
  config.trainer.super_batch = 16;
  config.stop = {.env_steps = 0, .updates = 3, .seconds = 0, .eval_return = 0};
  config.evaluation = {.every_updates = 0, .episodes = 1, .rows = 1, .env_params = "{}"};
  return config;
}

RunOutcome run_with(std::map<std::string, std::string> states) {
  Scenario scenario;
  scenario.config = small_config();
  World world(scenario);
  caf::actor_system_config system_config;
  register_messages(system_config);
  configure(system_config, {.scheduler = SchedulerKind::single_step, .network_config = {}});
  caf::actor_system system(system_config);
  auto context = std::make_shared<RunContext>();
  context->config = scenario.config;
  context->spec = fake_spec();
  context->make_env = [&](const EnvConfig& env) { return std::make_unique<FakeEnv>(world, env.rows); };
  context->make_evaluation_env = [&](int64_t rows) { return std::make_unique<FakeEnv>(world, rows); };
  context->make_policy = [&] { return fake_policy(world); };
  context->threads = false;
  context->deterministic = true;
  context->states = std::move(states);
  RunOutcome outcome;
  bool ended = false;
  const ReplayStart start;
  RunDependencies dependencies{std::make_shared<FakeLearner>(world, 0), start, std::make_shared<NoSink>(),
                               [&](const RunOutcome& result) {
                                 outcome = result;
                                 ended = true;
                               }};
  const SupervisorActor root = system.spawn(supervisor, RunContextPtr(context), std::move(dependencies));
  run_deterministically(system, root, ended, [] { return false; });
  return outcome;
}

}  // namespace

TEST_CASE("restore: a saved state that does not fit ends the run with the reason, for every kind of actor") {
  open_log(nullptr, {.to_stderr = false});
  for (const char* name : {"worker 0", "inference 0", "replay", "stats", "trainer", "supervisor"}) {
    CAPTURE(name);
    const RunOutcome outcome = run_with({{name, "nonsense"}});
    CHECK_MESSAGE(outcome.error.find(std::string(name) + ": its saved state of 8 bytes is not of this program") !=
                      std::string::npos,
                  outcome.error);
    CHECK(outcome.version.number == 0);
  }
  close_log();
}
