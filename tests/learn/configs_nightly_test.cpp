// The configs of environments, but for MuJoCo, that configs_test.cpp does not train.

#include "envs/grid_world.h"
#include "tests/learn/config_runs.h"
#include "tests/support/run_program.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("configs: cartpole_vtrace is solved with a policy lag of up to eight updates") {
  const Json summary = check_learns({.config = "cartpole_vtrace", .least = 475});
  CHECK(summary.at("last_start").at("lag").at("max") > 1.0);
  CHECK(summary.at("last_start").at("lag").at("cap") == 8.0);
}

TEST_CASE("configs: gym/cart_pole is solved by way of a Python process") {
  if (!python_has("gymnasium")) {
    MESSAGE("skipped: " << test_python() << " has no gymnasium");
    return;
  }
  check_learns({.config = "gym/cart_pole", .least = 475, .settings = {"env.python=" + test_python()}});
}

TEST_CASE("configs: acrobot swings up in time") {
  check_learns({.config = "acrobot", .least = -100, .seeds = 10, .seconds = 20});
}

TEST_CASE("configs: mountain_car_continuous reaches the goal and saves energy") {
  check_learns({.config = "mountain_car_continuous", .least = 90, .seconds = 60});
}

TEST_CASE("configs: grid_world comes within 2 % of the best possible return") {
  check_learns({.config = "grid_world", .least = 0.98 * grid_world_optimum("{}")});
}

TEST_CASE("configs: cartpole_no_velocity is solved by its LSTM, and not without memory") {
  check_learns({.config = "cartpole_no_velocity", .least = 475, .seconds = 60});
  const Json without = train_config("cartpole_no_velocity", {"model.kind=mlp", "model.net={}", "model.sequence=0"});
  const double score = without.at("eval").at("return_mean");
  MESSAGE("without memory: return_mean " << score);
  CHECK(score <= 200);
}

TEST_CASE("configs: token_transformer reaches the target with decisions made one after another") {
  check_learns({.config = "token_transformer", .score = "success_rate", .least = 0.9, .seeds = 3});
}

TEST_CASE("configs: chunked_continuous learns from reused chunks of actions") {
  const Json summary = check_learns({.config = "chunked_continuous", .least = 90});
  CHECK(summary.at("last_start").at("lag").at("max") > 1.0);
}

TEST_CASE("configs: multi_token learns from reused chunks of tokens") {
  check_learns({.config = "multi_token", .score = "success_rate", .least = 0.8, .seeds = 3});
}

TEST_CASE("configs: vtrace_async learns from stale, reused samples") {
  const Json summary = check_learns({.config = "vtrace_async", .least = -100});
  CHECK(summary.at("last_start").at("lag").at("max") > 1.0);
}

TEST_CASE("configs: synthetic runs to its end and accounts for every sample") {
  const Json summary = train_config("synthetic");
  check_ledger(summary);
  CHECK(summary.at("env_steps") >= 3200);
  CHECK(summary.at("env_failures").empty());
}

TEST_CASE("configs: synthetic with faults counts them, continues, and accounts for every sample") {
  const Json summary =
      train_config("synthetic", {"env.params.exception_probability=0.01", "env.params.nan_probability=0.01",
                                 R"(evaluation.env_params={"exception_probability": 0, "nan_probability": 0})",
                                 "workers.restart_backoff_ms=1", "stop.env_steps=1600"});
  check_ledger(summary);
  CHECK(summary.at("env_failures").at("Synthetic") > 0);
}
