#include "actors/supervisor.h"

#include <stdexcept>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/caf/system.h"
#include "sim/fakes.h"
#include "tests/actors/supervised_run.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

// Throws at its first use, while the supervisor starts.
class BrokenLearner final : public sim::WholeUpdateLearner {
 public:
  std::shared_ptr<const Signature> saved_signature() const override { return nullptr; }
  std::shared_ptr<const Signature> published_signature() const override { throw std::runtime_error("broken learner"); }
  WeightsPtr snapshot(PolicyVersion) const override { return nullptr; }
  std::shared_ptr<const Stager> stager() const override { return nullptr; }
  UpdateReport update_with(const std::vector<StagedBatch*>&, double) override { return {}; }
  double imitate(StagedBatch&, double) override { return 0; }
  LearnerState save() const override { return {}; }
  void begin_from(const std::map<std::string, Array>&) override {}
  void load(const LearnerState&) override {}
};

}  // namespace

TEST_CASE("supervisor: an exception during its start ends the run with the reason and all actors") {
  SupervisedRun run(std::make_shared<BrokenLearner>());
  REQUIRE(run.outcome);
  CHECK(run.outcome->error == "the supervisor failed: broken learner");
  CHECK(run.ends == 1);
  CHECK(run.system->registry().running() == 0);
}

TEST_CASE("supervisor: an exception during the run ends it with the reason and all its actors") {
  SupervisedRun run;
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

TEST_CASE("supervisor: when the only worker ends too often, the run ends with its last error") {
  SupervisedRun run(nullptr, 1, [] { return false; });
  run.wait(11min);
  REQUIRE(run.outcome);
  CHECK(run.outcome->error ==
        "worker 100 and its predecessors ended 101 times within 10 minutes, the last time with: no simulator");
}

TEST_CASE("supervisor: a worker of the run that cannot score answers ends the run at once with the reason") {
  SupervisedRun run(nullptr, 1);
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
  SupervisedRun run(nullptr, 2, [&made] { return ++made == 1; });  // the second worker never gets an environment
  run.wait(11min);
  CHECK(!run.outcome);
  CHECK(run.state().members.size() == 1);
  CHECK(run.state().resting_workers.empty());
}

TEST_CASE("supervisor: an inference actor that ends too often ends the run") {
  SupervisedRun run;
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
