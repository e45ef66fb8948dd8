// Inference processes of a run, simulated on one thread: all actors of the run use CAF's test coordinator, and
// in-process groups replace Gloo.
#include <algorithm>
#include <optional>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/inference_host.h"
#include "actors/stats_core.h"
#include "actors/supervisor.h"
#include "envs/make/make_env.h"
#include "runtime/caf/system.h"
#include "runtime/stats/snapshot.h"
#include "runtime/weights/sender.h"
#include "tests/actors/weight_plane.h"
#include "tests/runtime/weights/weight_fixture.h"
#include "tests/support/first_action.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

using Versions = std::vector<PolicyVersion>;

// What a run saves that publishes `published`: a critic, too.
std::shared_ptr<const Signature> saved_with(const Signature& published) {
  Signature result = published;
  result.tensors.push_back({TensorGroup::critic, "critic", {7}, DType::f32});
  return std::make_shared<const Signature>(std::move(result));
}

// Always takes the same action, and records the versions that it loads.
class StillPolicy final : public FirstAction {
 public:
  StillPolicy(std::shared_ptr<const Signature> signature, EnvSpec spec, std::shared_ptr<Versions> loaded)
      : FirstAction(std::move(spec)), signature_(std::move(signature)), loaded_(std::move(loaded)) {}
  std::shared_ptr<const Signature> signature() const override { return signature_; }
  void load(const WeightSnapshot& weights) override {
    REQUIRE(weights.flat.bytes() == signature_->total_bytes());
    if (loaded_) loaded_->push_back(weights.version);
  }

 private:
  std::shared_ptr<const Signature> signature_;
  std::shared_ptr<Versions> loaded_;
};

class StillStager final : public Stager {
 public:
  std::unique_ptr<StagedBatch> stage(const SuperBatch& batch) const override {
    auto staged = std::make_unique<StagedBatch>();
    staged->index = batch.index;
    staged->samples = batch.samples;
    return staged;
  }
};

class StillLearner final : public Learner {
 public:
  explicit StillLearner(std::shared_ptr<const Signature> signature) : signature_(std::move(signature)) {}
  std::shared_ptr<const Signature> saved_signature() const override { return saved_with(*signature_); }
  std::shared_ptr<const Signature> published_signature() const override { return signature_; }
  WeightsPtr snapshot(PolicyVersion version) const override { return weights_of(signature_, version); }
  std::shared_ptr<const Stager> stager() const override { return std::make_shared<const StillStager>(); }
  void begin(std::span<StagedBatch* const>, double) override {}
  Advance advance() override { return Advance::done; }
  UpdateReport finish() override { return {.steps = 1, .skipped = 0, .epochs = 1, .metrics = {}}; }
  double imitate(StagedBatch&, double) override { return 0; }
  LearnerState save() const override { return {}; }
  void begin_from(const std::map<std::string, Array>&) override {}
  void load(const LearnerState&) override {}

 private:
  std::shared_ptr<const Signature> signature_;
};

class KeptReports final : public RunSink {
 public:
  void save(const Checkpoint&) override {}
  void record(const StatsSnapshot&) override {}
  void show(const StatsSnapshot& snapshot) override { last = snapshot; }
  StatsSnapshot last;
};

RunConfig small_config(int64_t inference, int64_t updates) {
  RunConfig config;
  config.deterministic = true;
  config.env.rows = 4;
  config.workers.count = 2;
  config.rollout.length = 8;
  config.inference.count = inference;
  config.inference.batch_size = 8;
  config.trainer.super_batch = 128;
  config.evaluation = {.every_updates = 0, .episodes = 1, .rows = 1};
  config.checkpoint.every_updates = 0;
  config.stop = {.env_steps = 0, .updates = updates, .seconds = 0, .eval_return = 0};
  config.stats.interval = 100ms;
  return config;
}

// One inference process that joins a run.
struct Member {
  std::shared_ptr<Versions> loaded = std::make_shared<Versions>();
  std::optional<std::string> ended;
  InferenceHostActor host;
};

class SmallRun {
 public:
  SmallRun(int64_t inference, int64_t updates) : config_(small_config(inference, updates)) {
    auto context = context_of(signature_, nullptr);
    RunDependencies dependencies{
        std::make_shared<StillLearner>(signature_), {}, sink, [this](const RunOutcome& result) { outcome = result; }};
    root = thread.system().spawn(supervisor, context, dependencies);
  }
  ~SmallRun() {
    if (!outcome) caf::anon_send(caf::actor_cast<caf::typed_actor<caf::reacts_to<Stop>>>(root), Stop{"the test ends"});
    for (auto& member : members) caf::anon_send(caf::actor_cast<InferenceMember>(member->host), Stop{"the test ends"});
    thread.until([&] { return outcome.has_value(); });
    root = nullptr;
    members.clear();
    while (thread.system().registry().running() > 0 && thread.until([&, n = 0]() mutable { return ++n > 100; })) {
    }
  }

  std::shared_ptr<RunContext> context_of(std::shared_ptr<const Signature> signature, std::shared_ptr<Versions> loaded) {
    auto context = std::make_shared<RunContext>();
    context->config = config_;
    context->make_env = [](const EnvConfig& env) { return make_env(env); };
    context->make_evaluation_env = [this](int64_t rows) {
      return make_evaluation_env(config_.env, config_.evaluation.env_params, rows);
    };
    EnvConfig one = config_.env;
    one.rows = 1;
    context->spec = make_env(one)->spec();
    context->signature = saved_with(*signature);
    context->make_policy = [signature, loaded, spec = context->spec] {
      return std::make_unique<StillPolicy>(signature, spec, loaded);
    };
    context->make_group_backend = [this](const std::string&) { return backend_; };
    context->threads = false;
    return context;
  }

  Member& join(int64_t floats = kFloats) {
    Member& member = *members.emplace_back(std::make_unique<Member>());
    const auto make_context = [this, floats, &member](const std::string&) -> RunContextPtr {
      return context_of(signature_of(floats), member.loaded);
    };
    member.host = thread.system().spawn(
        inference_host, InferenceHostDependencies{RunAddress{"", 0, [this] { return JoinService(root); }}, make_context,
                                                  [](const std::string&) { return Route{"127.0.0.1", "127.0.0.1"}; },
                                                  [&member](const std::string& why) { member.ended = why; }});
    return member;
  }
  bool run_until(uint64_t updates) {
    return thread.until([&] { return sink->last.updates >= updates || outcome; });
  }
  bool run_to_end() {
    return thread.until([&] { return outcome.has_value(); });
  }
  uint64_t rows_served(InferenceIndex inference_index) const {
    const auto it = sink->last.rows_served.find("inference " + std::to_string(inference_index));
    return it == sink->last.rows_served.end() ? 0 : it->second;
  }

  OneThread thread;
  std::shared_ptr<KeptReports> sink = std::make_shared<KeptReports>();
  std::optional<RunOutcome> outcome;
  SupervisorActor root;
  std::vector<std::unique_ptr<Member>> members;

 private:
  RunConfig config_;
  std::shared_ptr<const Signature> signature_ = signature_of(kFloats);
  std::shared_ptr<GroupBackend> backend_ = make_in_process_backend();
};

template <class State, class Actor>
State& state_of(const Actor& actor) {
  auto* pointer = caf::actor_cast<caf::strong_actor_ptr>(actor)->get();
  return dynamic_cast<SelfPointer<Actor, State>>(pointer)->state;
}

bool rises(const Versions& versions) {
  return std::ranges::is_sorted(versions, std::less_equal<>{}) && !versions.empty();
}

}  // namespace

TEST_CASE("inference_host: a run without inference actors waits for one that joins and then trains to its end") {
  SmallRun run(/*inference=*/0, /*updates=*/20);
  REQUIRE(run.thread.until([n = 0]() mutable { return ++n > 500; }));
  CHECK(run.sink->last.updates == 0);
  Member& member = run.join();
  REQUIRE(run.run_to_end());
  CHECK(run.outcome->error == "");
  CHECK(run.sink->last.updates == 20);
  CHECK(run.sink->last.ledger.balances());
  CHECK(run.sink->last.lag_max <= static_cast<double>(run.sink->last.lag_cap));
  CHECK(run.rows_served(0) > 0);
  REQUIRE(run.thread.until([&] { return member.ended.has_value(); }));
  CHECK(*member.ended == "");
  CHECK(rises(*member.loaded));
  CHECK(member.loaded->size() > 5);
}

TEST_CASE("inference_host: a process that joins late gets the current weights first and then serves workers") {
  SmallRun run(1, 400);
  REQUIRE(run.run_until(10));
  Member& member = run.join();
  REQUIRE(run.run_to_end());
  REQUIRE(rises(*member.loaded));
  CHECK(member.loaded->front().number >= 10);
  CHECK(run.rows_served(0) > 0);
  CHECK(run.rows_served(1) > 0);
  CHECK(run.sink->last.weights_behind.at("inference 1") <= run.sink->last.lag_cap + 1);
}

TEST_CASE("inference_host: a process with another policy is refused with the first difference") {
  SmallRun run(1, 10);
  Member& member = run.join(kFloats + 1);
  REQUIRE(run.thread.until([&] { return member.ended.has_value(); }));
  CHECK(member.ended->find(
            "tensor 0 is policy parameter w float32 [40] here and policy parameter w float32 [41] there") !=
        std::string::npos);
  REQUIRE(run.run_to_end());
  CHECK(run.outcome->error == "");
  CHECK(run.rows_served(1) == 0);
}

TEST_CASE("supervisor: the workers of an inference process that ends continue with another inference actor") {
  SmallRun run(1, 400);
  Member& member = run.join();
  REQUIRE(run.thread.until([&] { return run.rows_served(1) > 0; }));
  caf::anon_send(caf::actor_cast<InferenceMember>(member.host), Stop{"interrupted"});
  REQUIRE(run.run_to_end());
  CHECK(run.outcome->error == "");
  CHECK(run.sink->last.updates == 400);
  CHECK(run.sink->last.ledger.balances());
  CHECK_FALSE(run.sink->last.weights_behind.contains("inference 1"));
}

TEST_CASE("inference_host: a process that is removed joins again as a new receiver") {
  SmallRun run(1, 400);
  Member& member = run.join();
  REQUIRE(run.thread.until([&] { return run.rows_served(1) > 0; }));
  const size_t before = member.loaded->size();
  caf::anon_send(caf::actor_cast<InferenceMember>(member.host), Expelled{1, "a transfer came too late"});
  REQUIRE(run.run_to_end());
  CHECK(run.rows_served(2) > 0);
  CHECK(member.loaded->size() > before);
  CHECK(rises(*member.loaded));
}

TEST_CASE("inference_host: the pause doubles each time the inference actor ends soon after it serves") {
  SmallRun run(1, 1'000'000);
  Member& member = run.join();
  auto& state = state_of<InferenceHostState>(member.host);
  for (const auto pause : {100ms, 200ms, 400ms, 800ms}) {
    REQUIRE(run.thread.until([&] { return state.serving; }));
    caf::anon_send_exit(state.inference, caf::exit_reason::kill);
    REQUIRE(run.thread.until([&] { return !state.serving; }));
    CHECK(state.joining.backoff == pause);
  }
}
