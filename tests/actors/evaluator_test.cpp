#include "actors/evaluator.h"

#include <algorithm>
#include <functional>

#include "envs/make/make_env.h"
#include "runtime/base/memory_disk.h"
#include "tests/actors/one_actor.h"
#include "tests/support/first_action.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

// Calls `on_act` before each action.
class WatchedPolicy final : public FirstAction {
 public:
  WatchedPolicy(EnvSpec spec, std::function<void()> on_act)
      : FirstAction(std::move(spec)), on_act_(std::move(on_act)) {}
  ActOutput act(const ActInput& input) override {
    on_act_();
    return FirstAction::act(input);
  }

 private:
  std::function<void()> on_act_;
};

RunConfig evaluating(int64_t episode_length, int64_t episodes = 4) {
  RunConfig config;
  config.env.id = "Synthetic";
  config.env.params =
      R"({"image_height": 1, "image_width": 1, "episode_length": )" + std::to_string(episode_length) + "}";
  config.evaluation.episodes = episodes;
  config.evaluation.rows = 1;
  return config;
}

struct Fixture : OneActor {
  explicit Fixture(const RunConfig& config) : OneActor(config) {
    context->deterministic = config.deterministic;
    context->make_evaluation_env = [config](int64_t rows) { return make_evaluation_env(config.env, "{}", rows); };
    context->make_policy = [this, config] {
      return std::make_unique<WatchedPolicy>(make_evaluation_env(config.env, "{}", 1)->spec(), [this] {
        ++acts;
        if (on_act) on_act();
      });
    };
    evaluator = keep(system->spawn(troupe::evaluator, RunContextPtr(context), stats.as<StatsActor>()));
    run();
  }
  void ask(uint64_t number, bool last = false) {
    auto weights = std::make_shared<WeightSnapshot>();
    weights->version = {0, number};
    asker.tell(evaluator, EvaluateMessage{weights, last});
  }
  std::vector<uint64_t> evaluated(const Peer& by) {
    std::vector<uint64_t> result;
    for (const Evaluation& evaluation : by.heard->evaluations) result.push_back(evaluation.version.number);
    return result;
  }

  uint64_t acts = 0;
  std::function<void()> on_act;
  Peer stats = add_peer(), asker = add_peer();
  EvaluatorActor evaluator;
};

}  // namespace

TEST_CASE("evaluator: every evaluation that it is asked for is made, in order") {
  Fixture f(evaluating(5));
  for (const uint64_t number : {20, 40, 60, 80}) f.ask(number);
  f.ask(90, /*last=*/true);
  f.run();
  const std::vector<uint64_t> all = {20, 40, 60, 80, 90};
  CHECK(f.evaluated(f.stats) == all);
  CHECK(f.evaluated(f.asker) == all);
  for (const Evaluation& evaluation : f.asker.heard->evaluations) {
    CHECK(evaluation.episodes == 4);
    CHECK(evaluation.error.empty());
    CHECK(evaluation.last == (evaluation.version.number == 90));
  }
}

TEST_CASE("evaluator: a last policy whose evaluation is open is not evaluated twice, and who asked last is answered") {
  for (const uint64_t last : {20, 40}) {  // the one that is played, and one that waits
    CAPTURE(last);
    Fixture f(evaluating(5));
    const Peer other = f.add_peer();
    f.on_act = [&] {
      if (f.acts != 3) return;
      auto weights = std::make_shared<WeightSnapshot>();
      weights->version = {0, last};
      other.tell(f.evaluator, EvaluateMessage{weights, /*last=*/true});
    };
    f.ask(20);
    f.ask(40);
    f.run();
    CHECK(f.evaluated(f.stats) == std::vector<uint64_t>{20, 40});
    CHECK(f.evaluated(f.asker) == std::vector<uint64_t>{60 - last});
    REQUIRE(f.evaluated(other) == std::vector<uint64_t>{last});
    CHECK(other.heard->evaluations[0].last);
    CHECK(other.heard->evaluations[0].episodes == 4);
    CHECK(!f.asker.heard->evaluations[0].last);
  }
}

TEST_CASE("evaluator: an evaluation says how far it is, and how many others wait") {
  Fixture f(evaluating(100, 4));
  f.on_act = [&] {
    if (f.acts == 250) f.pass_time(1s);
  };
  f.ask(20);
  f.ask(40);
  f.run();
  REQUIRE(f.stats.heard->progress.size() > 2);
  const auto& begun = f.stats.heard->progress[0].now;
  REQUIRE(begun.has_value());
  CHECK(begun->updates == 20);
  CHECK(begun->episodes == 0);
  CHECK(begun->of == 4);
  const auto& first = f.stats.heard->progress[1].now;
  REQUIRE(first.has_value());
  CHECK(first->updates == 20);
  CHECK(first->episodes == 2);  // all that have ended
  CHECK(first->of == 4);
  CHECK(first->waiting == 1);
  CHECK(first->seconds == 1);
  CHECK(!f.stats.heard->progress.back().now.has_value());
}

TEST_CASE("evaluator: one in which no episode ends any more ends with the episodes that it has") {
  RunConfig config = evaluating(10, 100);
  config.evaluation.timeout = 60s;
  Fixture f(config);
  f.on_act = [&] {
    if (f.acts > 25) f.pass_time(f.acts < 40 ? 5s : 0s);  // slow, but episodes end
    if (f.acts == 45) f.pass_time(61s);
  };
  f.ask(20);
  f.ask(40);
  f.run();
  REQUIRE(f.evaluated(f.asker) == std::vector<uint64_t>{20, 40});
  const Evaluation& cut = f.asker.heard->evaluations.front();
  CHECK(cut.episodes == 4);  // all that had ended before the step that took so long
  CHECK(cut.return_mean == cut.return_mean);
  CHECK(cut.error.find("no episode ended within 60000 ms (evaluation.timeout_ms)") != std::string::npos);
  CHECK(f.asker.heard->evaluations.back().error.empty());
  CHECK(f.asker.heard->evaluations.back().episodes == 100);
}

TEST_CASE("evaluator: one that is given up names the failures of the environment") {
  RunConfig config = evaluating(1000);
  config.env.params = R"({"image_height": 1, "image_width": 1, "exception_probability": 1})";
  config.evaluation.timeout = 60s;
  Fixture f(config);
  f.on_act = [&] {
    if (f.acts == 2) f.pass_time(300ms);  // then it says how far it is
    if (f.acts == 3) f.pass_time(61s);
  };
  f.ask(20, /*last=*/true);
  f.run();
  REQUIRE(f.evaluated(f.asker) == std::vector<uint64_t>{20});
  CHECK(f.asker.heard->evaluations.front().error ==
        "no episode ended within 60000 ms (evaluation.timeout_ms); 0 of 4 episodes were played; the environment failed "
        "2 times, the last time with: row 0: synthetic: injected exception");
}

TEST_CASE("evaluator: the limit of time is kept to the millisecond") {
  RunConfig config = evaluating(1'000'000, 1);
  config.evaluation.timeout = 1300ms;
  Fixture f(config);
  f.on_act = [&] { f.pass_time(1ms); };
  f.ask(20);
  f.run();
  REQUIRE(f.evaluated(f.asker) == std::vector<uint64_t>{20});
  CHECK(f.acts >= 1300);
  CHECK(f.acts <= 1300 + 200);  // what it plays at a time
}

TEST_CASE("evaluator: an actor that was given up is waited for until it has ended") {
  RunConfig config = evaluating(1'000'000, 1);
  config.evaluation.timeout = 60s;
  Fixture f(config);
  f.on_act = [&] {
    if (f.acts == 1) f.pass_time(61s);
  };
  f.ask(20);
  f.run();
  REQUIRE(f.evaluated(f.asker) == std::vector<uint64_t>{20});
  auto& state = f.state_of<EvaluatorState>(f.evaluator);
  CHECK(state.given_up.empty());
  CHECK(!state.actor);
  state.given_up.emplace_back();  // as if its environment were still inside a step
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  caf::anon_send(f.evaluator, Stop{"the end"});
  f.run();
  CHECK(disk.read("log").find(
            "warning evaluator: 1 evaluation given up after evaluation.timeout_ms has not stopped yet") !=
        std::string::npos);
  open_log(nullptr, {.to_stderr = false});
}

TEST_CASE("evaluator: while two that were given up are inside a step, only the last one of the run is tried") {
  Fixture f(evaluating(1'000'000, 1));
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  auto& state = f.state_of<EvaluatorState>(f.evaluator);
  state.given_up.assign(2, f.asker.as<EvaluationActor>());
  f.ask(20);
  f.ask(40);
  f.run();
  REQUIRE(f.evaluated(f.asker) == std::vector<uint64_t>{20, 40});
  CHECK(f.asker.heard->evaluations[1].error ==
        "not made, because the environment does not return from a step or a start of those before it");
  CHECK(f.acts == 0);
  const std::string log = disk.read("log");
  CHECK(std::count(log.begin(), log.end(), '\n') == 1);
  CHECK(log.find("warning evaluator: the evaluation after update 20 is not made") != std::string::npos);
  f.on_act = [&] { f.pass_time(301s); };
  f.ask(45, /*last=*/true);
  f.run();
  CHECK(f.acts > 0);
  open_log(nullptr, {.to_stderr = false});
}

TEST_CASE("evaluator: at a stop the evaluations that are not made are named, and what becomes of them") {
  struct Case {
    int64_t keep_best;
    std::string advice;
  };
  for (const Case& c : {Case{0,
                             ". The same command evaluates those that have a checkpoint; with checkpoint.keep_best "
                             "all have one"},
                        Case{1, ". The same command evaluates them"}}) {
    RunConfig config = evaluating(1'000'000, 1);
    config.checkpoint.keep_best = c.keep_best;
    CAPTURE(c.keep_best);
    Fixture f(config);
    MemoryDisk disk;
    open_log(disk.open_append("log"), {.to_stderr = false});
    f.on_act = [&] {
      if (f.acts == 10) caf::anon_send(f.evaluator, Stop{"interrupted"});
    };
    f.ask(20);
    f.ask(40);
    f.ask(45, /*last=*/true);
    f.run();
    CHECK(f.evaluated(f.asker).empty());
    CHECK(disk.read("log").find("warning evaluator: not evaluated: the policies after updates 20 and 40: the run ends "
                                "(interrupted)" +
                                c.advice) != std::string::npos);
    open_log(nullptr, {.to_stderr = false});
  }
  CHECK(policies_text({20}) == "the policy after update 20");
  CHECK(policies_text({20, 40, 60}) == "the policies after updates 20, 40 and 60");
  CHECK(policies_text({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) ==
        "the policies after updates 1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
}

TEST_CASE("evaluator: in a deterministic run episodes that do not end are counted in steps") {
  RunConfig config = evaluating(1'000'000, 1);
  config.deterministic = true;
  config.evaluation.timeout = 2s;
  Fixture f(config);
  f.ask(20);
  f.ask(40);
  f.run();
  // The other would take as long, so it is not tried.
  REQUIRE(f.evaluated(f.asker) == std::vector<uint64_t>{20, 40});
  CHECK(f.asker.heard->evaluations[1].error == "not made, because no episode ended in the one before it");
  CHECK(f.asker.heard->evaluations[0].episodes == 0);
  CHECK(f.asker.heard->evaluations[0].error.find("2,000 steps") != std::string::npos);
  CHECK(f.acts < 2200);
  CHECK(f.stats.heard->progress.empty());
}

TEST_CASE("evaluator: an evaluation that throws is reported with its error, and the next one is made") {
  Fixture f(evaluating(5));
  f.on_act = [&] {
    if (f.acts == 3) throw std::runtime_error("no such action");
  };
  f.ask(20);
  f.ask(40);
  f.run();
  REQUIRE(f.evaluated(f.asker) == std::vector<uint64_t>{20, 40});
  CHECK(f.asker.heard->evaluations[0].error == "no such action");
  CHECK(f.asker.heard->evaluations[1].error.empty());
}

TEST_CASE("evaluator: those that wait are few enough for the memory") {
  CHECK(most_open_evaluations(20'000) == 32);
  CHECK(most_open_evaluations(size_t{32} << 20) == 8);
  CHECK(most_open_evaluations(size_t{4} << 30) == 2);
}
