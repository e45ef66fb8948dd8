// The configs that configs_test.cpp does not train.

#include "envs/grid_world.h"
#include "tests/learn/config_runs.h"
#include "tests/support/run_command.h"
#include "tests/support/run_program.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("configs: cartpole_vtrace is solved with a policy lag of up to eight updates") {
  const Json summary = check_learns({.config = "cartpole_vtrace", .least = 475});
  CHECK(summary.at("lag").at("max") > 1.0);
  CHECK(summary.at("lag").at("cap") == 8.0);
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
  CHECK(summary.at("lag").at("max") > 1.0);
}

TEST_CASE("configs: multi_token learns from reused chunks of tokens") {
  check_learns({.config = "multi_token", .score = "success_rate", .least = 0.8, .seeds = 3});
}

TEST_CASE("configs: vtrace_async learns from stale, reused samples") {
  const Json summary = check_learns({.config = "vtrace_async", .least = -100});
  CHECK(summary.at("lag").at("max") > 1.0);
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

TEST_CASE("configs: tokens/reverse learns to reverse digits") {
  check_learns({.config = "tokens/reverse", .score = "success_rate", .least = 0.8, .seeds = 1});
}

TEST_CASE("configs: tokens/countdown_python learns from a reward in Python") {
  check_learns({.config = "tokens/countdown_python", .score = "success_rate", .least = 0.6, .seeds = 1});
}

TEST_CASE("configs: tokens/reverse_ppo learns to reverse digits with a critic") {
  check_learns({.config = "tokens/reverse_ppo", .score = "success_rate", .least = 0.8, .seeds = 1});
}

TEST_CASE("configs: tokens/reverse_rloo learns to reverse digits with RLOO") {
  check_learns({.config = "tokens/reverse_rloo", .score = "success_rate", .least = 0.8, .seeds = 1});
}

TEST_CASE("configs: tokens/reverse_reinforce_plus_plus learns to reverse digits with REINFORCE++") {
  check_learns({.config = "tokens/reverse_reinforce_plus_plus", .score = "success_rate", .least = 0.8, .seeds = 1});
}

TEST_CASE("configs: tokens/reverse_gspo learns to reverse digits with GSPO") {
  check_learns({.config = "tokens/reverse_gspo", .score = "success_rate", .least = 0.8, .seeds = 1});
}

TEST_CASE("configs: tokens/reverse_cispo learns to reverse digits with CISPO") {
  check_learns({.config = "tokens/reverse_cispo", .score = "success_rate", .least = 0.8, .seeds = 1});
}

TEST_CASE("configs: tokens/sort learns to sort digits") {
  check_learns({.config = "tokens/sort", .score = "success_rate", .least = 0.9, .seeds = 1});
}

namespace {

bool has_mujoco() {
  if (run_command({built_program("troupe"), "envs", "mujoco:Hopper-v5"}).exit_code == 0) return true;
  MESSAGE("skipped: tools/fetch_mujoco has not been run");
  return false;
}

}  // namespace

TEST_CASE("configs: mujoco/half_cheetah_1m runs") {
  if (has_mujoco()) check_learns({.config = "mujoco/half_cheetah_1m", .least = 1500, .seeds = 3, .mean_of = 3});
}

TEST_CASE("configs: mujoco/hopper_1m hops") {
  if (has_mujoco()) check_learns({.config = "mujoco/hopper_1m", .least = 1500, .seeds = 3, .mean_of = 3});
}

TEST_CASE("configs: mujoco/walker2d_1m walks") {
  if (has_mujoco()) check_learns({.config = "mujoco/walker2d_1m", .least = 1500, .seeds = 3, .mean_of = 3});
}
