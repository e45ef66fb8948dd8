// Environments that fail, and environments whose step does not return, in the trainer's process and in others. The run
// ends with the reason, and a stalled step does not delay a stop.
#include <signal.h>

#include <algorithm>

#include "runtime/base/machine.h"
#include "tests/process/environment_runs.h"
#include "tests/process/train_process.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// The environment Synthetic, with an image of one pixel.
Words synthetic(const std::string& params) {
  return set({"env.id=Synthetic", R"(env.params={"image_height": 1, "image_width": 1, )" + params + "}"});
}

const Words kEndless = set({"stop.env_steps=0", "stop.updates=1000000"});
const Words kShort = set({"stop.env_steps=2048"});
const Words kStalls = synthetic(R"("stall_probability": 1, "stall_ms": 3600000)") + set({"replay.max_policy_lag=4"});
const Words kFails = synthetic(R"("exception_probability": 1)") +
                     set({"workers.failure_timeout_ms=700", "workers.restart_backoff_ms=10"});

// Whether `workers` workers, with two groups of 8 rows each, have been sent actions. They start their first step before
// they handle any later message.
bool are_stepping(const TrainProcess& run, uint64_t workers) {
  const Json stats = stats_at(run.stats_at());
  const Json::json_pointer rows("/rows_served/inference 0");
  return stats.contains(rows) && stats.at(rows).get<uint64_t>() >= workers * 2 * 8;
}

// Checks that the run ends by itself and reports the environment's error as the reason.
void check_ends_with_reason(TrainProcess& run) {
  CHECK(run.process().wait().value_or(-1) == 1);
  CHECK(has(run.process().err(), "injected exception"));
  REQUIRE(run.summary().is_object());
  CHECK(run.summary().at("reason") == "environments fail");
  CHECK(has(run.summary().at("error"), "workers.failure_timeout_ms"));
  const std::string err = run.process().err();
  CHECK(err.find("workers.failure_timeout_ms") == err.rfind("workers.failure_timeout_ms"));  // reported once
  CHECK(!has(run.process().out(), "bottleneck: none"));
  CHECK(run.summary().at("env_failures").at("Synthetic").get<uint64_t>() > 0);
  CHECK(checkpoints_of(run.folder()).size() == 1);
}

}  // namespace

TEST_CASE("environment: a worker whose step does not return does not delay the end of the run") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless + kStalls + set({"workers.count=3"}));
  REQUIRE(eventually([&] { return are_stepping(run, 3); }));
  run.process().signal(SIGINT);
  CHECK(run.process().wait(kEnd).value_or(-1) == 130);
  CHECK(log_has(run.folder(), "its environment is still inside a step"));
  CHECK(checkpoints_of(run.folder()).size() == 1);
  REQUIRE(run.summary().is_object());
  CHECK(run.summary().at("ledger").at("lost_in_crash") == 0);
}

TEST_CASE("environment: an evaluation whose step does not return does not delay the end of the run") {
  TempFolder folder;
  const Words stalled_evaluation =
      set({R"(evaluation.env_params={"stall_probability": 1, "stall_ms": 3600000})", "evaluation.every_updates=1"});
  TrainProcess run(folder / "run", kEndless + synthetic(R"("stall_ms": 0)") + stalled_evaluation);
  REQUIRE(run.makes_updates());
  run.process().signal(SIGTERM);
  CHECK(run.process().wait(kEnd).value_or(-1) == 130);
  CHECK(log_has(run.folder(), "the evaluator did not stop"));
  CHECK(run.summary().is_object());
}

TEST_CASE("environment: a last evaluation whose step does not return ends within its time, and so does eval") {
  TempFolder folder;
  const Words stalled =
      set({R"(evaluation.env_params={"stall_probability": 1, "stall_ms": 3600000})", "evaluation.timeout_ms=1500"});
  TrainProcess run(folder / "run",
                   set({"stop.env_steps=0", "stop.updates=2"}) + synthetic(R"("stall_ms": 0)") + stalled);
  CHECK(run.process().wait(kEnd).value_or(-1) == 1);
  const std::string why = "no episode ended within 1500 ms (evaluation.timeout_ms";
  CHECK(has(run.process().err(), why));
  CHECK(has(run.process().out(), "evaluating update "));
  REQUIRE(run.summary().is_object());
  CHECK(has(run.summary().at("eval").at("error"), why));
  CHECK(run.summary().at("updates") == 2);
  CHECK(checkpoints_of(run.folder()) == std::vector<uint64_t>{2});

  Process eval({"troupe", "eval", run.folder(), "--json"});
  CHECK(eval.wait(kEnd).value_or(-1) == 1);
  CHECK(has(eval.err(), why));
  CHECK(has(Json::parse(eval.out()).at("error"), "; 0 of 1 episode was played"));
}

TEST_CASE("environment: eval of episodes that never end says how far it is, and stops at a signal with what it has") {
  TempFolder folder;
  const Words endless =
      set({"stop.env_steps=0", "stop.updates=2",
           R"(evaluation.env_params={"stall_probability": 1, "stall_ms": 3600000})", "evaluation.timeout_ms=1"});
  TrainProcess run(folder / "run", synthetic(R"("stall_ms": 0)") + endless);
  CHECK(run.process().wait(kEnd).value_or(-1) == 1);
  Process eval({"troupe", "eval", run.folder(), "--timeout-ms", "0", "--episodes", "7"});
  REQUIRE(eventually([&] { return has(eval.err(), "troupe: 0 of 7 episodes played after 0:0"); }));
  eval.signal(SIGTERM);
  CHECK(eval.wait(kEnd).value_or(-1) == 130);
  CHECK(has(eval.err(), "troupe: stopped by SIGTERM after 0 of 7 episodes\n"));
}

TEST_CASE("environment: a worker whose step does not return loses its credits") {
  TempFolder folder;
  TrainProcess run(folder / "run",
                   kEndless + synthetic(R"("stall_probability": 0.0001, "stall_ms": 3600000)") +
                       set({"workers.count=4", "workers.credit_timeout_ms=1000", "replay.max_policy_lag=4"}));
  CHECK(eventually([&] { return log_has(run.folder(), "and loses its "); }));
  run.process().signal(SIGINT);
  CHECK(run.process().wait(kEnd).value_or(-1) == 130);
}

TEST_CASE("environment: INT ends a worker process whose steps do not return") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless + kStalls + set({"workers.count=0"}));
  const auto worker = start_worker(run.workers_at(), 4);
  REQUIRE(eventually([&] { return are_stepping(run, 4); }));
  worker->signal(SIGINT);
  CHECK(worker->wait(kEnd).value_or(-1) == 130);
  run.process().signal(SIGINT);
  CHECK(run.process().wait(kEnd).value_or(-1) == 130);
}

TEST_CASE("environment: workers of one process whose environments sleep do not wait for each other") {
  TempFolder folder;
  // A step takes 0.1 s. If the workers shared threads, there would be at most one thread per processor.
  const auto threads = static_cast<int>(std::max<uint64_t>(2, processors()));
  const int workers = 8 * threads;
  const Words sleeps = synthetic(R"("step_us": 100000, "step_mode": "sleep")");
  const Words small = set({"env.rows=1", "workers.groups=1", "rollout.length=4", "trainer.super_batch=64",
                           "trainer.minibatches=1", "replay.max_policy_lag=4"});
  TrainProcess run(folder / "run", kEndless + sleeps + small + set({"workers.count=0"}));
  const auto worker = start_worker(run.workers_at(), workers);
  REQUIRE(run.makes_updates(3));
  double fastest = 0;
  REQUIRE(eventually([&] {
    const Json rate = metrics_of(run.folder()).at("env_steps_per_second");
    if (rate.is_number()) fastest = std::max(fastest, rate.get<double>());
    // Shared threads could make 10 * threads steps per second; with a thread per worker it is 80 * threads.
    return fastest > 12.5 * threads;
  }));
  CHECK(run.interrupt().value_or(-1) == 130);
}

TEST_CASE("environment: one that always fails ends the run, with and without quarantine of its rows") {
  TempFolder folder;
  for (const std::string quarantine_after : {"2", "100000"}) {
    CAPTURE(quarantine_after);
    TrainProcess run(folder / quarantine_after,
                     kEndless + kFails + set({"workers.quarantine_after=" + quarantine_after, "workers.count=2"}));
    check_ends_with_reason(run);
    CHECK(log_has(run.folder(), "injected exception"));
  }
}

TEST_CASE("environment: one that always fails in a worker process ends the run") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless + kFails + set({"workers.count=0"}));
  const auto worker = start_worker(run.workers_at(), 2);
  check_ends_with_reason(run);
  CHECK(worker->wait().value_or(-1) == 0);
}

TEST_CASE("environment: one that fails sometimes ends neither the run nor the evaluation") {
  TempFolder folder;
  const Words fails = synthetic(R"("exception_probability": 0.05, "episode_length": 20)");
  TrainProcess run(folder / "run", kShort + fails +
                                       set({"workers.failure_timeout_ms=1000", "workers.restart_backoff_ms=1",
                                            "evaluation.episodes=20"}));
  CHECK_MESSAGE(run.process().wait().value_or(-1) == 0, run.process().err());
  CHECK(run.summary().at("env_failures").at("Synthetic").get<uint64_t>() > 0);
}

TEST_CASE("environment: a deterministic run whose environment always fails ends with the environment's error") {
  TempFolder folder;
  for (const std::string quarantine_after : {"2", "100000"}) {
    CAPTURE(quarantine_after);
    const CommandLine run(
        train_line(folder / quarantine_after,
                   kEndless + kFails + set({"deterministic=true", "workers.quarantine_after=" + quarantine_after})));
    CHECK(run.exit_code == 1);
    CHECK(has(run.err, "injected exception"));
  }
}

TEST_CASE("environment: an evaluation in which every episode fails makes `train` and `eval` fail") {
  TempFolder folder;
  TrainProcess run(folder / "run", kShort + synthetic(R"("stall_ms": 0)") +
                                       set({R"(evaluation.env_params={"exception_probability": 1})"}));
  CHECK(run.process().wait().value_or(-1) == 1);
  CHECK(has(run.process().err(), "troupe: the last evaluation failed: the environment failed"));
  CHECK(run.summary().at("reason") == "stop.env_steps reached");
  const CommandLine eval({"troupe", "eval", run.folder()});
  CHECK(eval.exit_code == 1);
  CHECK(eval.out == "");
  CHECK(has(eval.err, "injected exception"));
  CHECK(!has(eval.err, "internal error"));
}
