// Every file of configs/ is trained and must reach its score: with one seed by default; with TROUPE_ALL_SEEDS=1, with
// all seeds and within the seconds that docs/results.md states. No seed here is one that a config was tuned on.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "envs/grid_world.h"
#include "tests/support/run_command.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;

using Json = nlohmann::json;

namespace {

constexpr int kFirstSeed = 1001;

bool all_seeds() {
  const char* value = std::getenv("TROUPE_ALL_SEEDS");
  return value != nullptr && std::string(value) == "1";
}

// The summary of one finished run.
Json train(const std::string& config, int seed, const std::vector<std::string>& settings = {}) {
  const test::TempFolder folder;
  std::vector<std::string> command = {
      troupe::test::built_program("troupe"), "train", config, "--run", folder / "run", "--seed", std::to_string(seed)};
  for (const std::string& setting : settings) command.insert(command.end(), {"--set", setting});
  const auto result = troupe::test::run_command(command);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return Json::parse(std::ifstream(folder / "run/summary.json"));
}

void check_ledger(const Json& summary) {
  const auto count = [&](const char* state) { return summary.at("ledger").at(state).get<uint64_t>(); };
  uint64_t accounted = 0;
  for (const char* state :
       {"trained", "dropped_stale", "dropped_full", "lost_in_crash", "left_over", "filtered", "waiting"})
    accounted += count(state);
  CHECK(count("produced") == accounted);
  CHECK(count("trained") > 0);
  CHECK(summary.at("lag").at("max").get<double>() <= summary.at("lag").at("bound").get<double>());
}

struct Bar {
  std::string config;
  std::string score = "return_mean";
  double least = 0;    // the score that every seed must reach
  int seeds = 5;       // with TROUPE_ALL_SEEDS=1
  double seconds = 0;  // the limit of each run, checked with TROUPE_ALL_SEEDS=1; 0 = no limit
  std::vector<std::string> settings = {};
};

// Trains the config with its seeds and checks the scores. Returns the summary of the last run.
Json check_learns(const Bar& bar) {
  Json summary;
  for (int seed = kFirstSeed; seed < kFirstSeed + (all_seeds() ? bar.seeds : 1); ++seed) {
    CAPTURE(seed);
    summary = train(bar.config, seed, bar.settings);
    const double score = summary.at("eval").at(bar.score), seconds = summary.at("wall_seconds");
    MESSAGE(bar.config << ", seed " << seed << ": " << bar.score << " " << score << " (bar " << bar.least << ") in "
                       << seconds << " s, " << summary.at("env_steps_per_second").get<double>() << " env-steps/s");
    CHECK(score >= bar.least);
    check_ledger(summary);
    if (all_seeds() && bar.seconds > 0) CHECK(seconds < bar.seconds);
  }
  return summary;
}

}  // namespace

TEST_CASE("configs: cartpole is solved") {
  check_learns({.config = "cartpole", .least = 475, .seeds = 10, .seconds = 10});
}

TEST_CASE("configs: cartpole_vtrace is solved with a policy lag of up to eight updates") {
  const Json summary = check_learns({.config = "cartpole_vtrace", .least = 475});
  CHECK(summary.at("lag").at("max") > 1.0);
  CHECK(summary.at("lag").at("bound") == 8.0);
}

TEST_CASE("configs: gym/cart_pole is solved by way of a Python process") {
  if (!test::python_has("gymnasium")) {
    MESSAGE("skipped: " << test::test_python() << " has no gymnasium");
    return;
  }
  check_learns({.config = "gym/cart_pole", .least = 475, .settings = {"env.python=" + test::test_python()}});
}

TEST_CASE("configs: acrobot swings up in time") {
  check_learns({.config = "acrobot", .least = -100, .seeds = 10, .seconds = 20});
}

TEST_CASE("configs: pendulum swings up and stays upright") {
  check_learns({.config = "pendulum", .least = -200, .seeds = 10, .seconds = 20});
}

TEST_CASE("configs: mountain_car_continuous reaches the goal and saves energy") {
  check_learns({.config = "mountain_car_continuous", .least = 90, .seconds = 60});
}

TEST_CASE("configs: grid_world comes within 2 % of the best possible return") {
  check_learns({.config = "grid_world", .least = 0.98 * grid_world_optimum("{}")});
}

TEST_CASE("configs: grid_world_image finds the same paths in an image of the grid") {
  check_learns({.config = "grid_world_image", .least = 0.98 * grid_world_optimum("{}"), .seconds = 60});
}

TEST_CASE("configs: cartpole_no_velocity is solved by its LSTM, and not without memory") {
  check_learns({.config = "cartpole_no_velocity", .least = 475, .seconds = 60});
  const Json without =
      train("cartpole_no_velocity", kFirstSeed, {"model.kind=mlp", "model.net={}", "model.sequence=0"});
  const double score = without.at("eval").at("return_mean");
  MESSAGE("without memory: return_mean " << score);
  CHECK(score <= 200);
}

TEST_CASE("configs: token_reach reaches the target") {
  check_learns({.config = "token_reach", .score = "success_rate", .least = 0.95});
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
  const Json& ledger = summary.at("ledger");
  const double dropped = ledger.at("dropped_stale").get<double>() + ledger.at("dropped_full").get<double>();
  CHECK(dropped < 0.02 * ledger.at("produced").get<double>());
}

TEST_CASE("configs: synthetic runs to its end and accounts for every sample") {
  const Json summary = train("synthetic", kFirstSeed);
  check_ledger(summary);
  CHECK(summary.at("env_steps") >= 3200);
  CHECK(summary.at("env_failures").empty());
}

TEST_CASE("configs: synthetic with faults counts them, continues, and accounts for every sample") {
  const Json summary = train("synthetic", kFirstSeed,
                             {"env.params.exception_probability=0.01", "env.params.nan_probability=0.01",
                              "workers.restart_backoff_ms=1", "stop.env_steps=1600"});
  check_ledger(summary);
  CHECK(summary.at("env_failures").at("Synthetic") > 0);
}

TEST_CASE("configs: every file has a test in this file") {
  const std::set<std::string> tested = {
      "cartpole",  "cartpole_no_velocity",    "grid_world_image", "cartpole_vtrace", "acrobot",
      "pendulum",  "mountain_car_continuous", "grid_world",       "token_reach",     "token_transformer",
      "synthetic", "chunked_continuous",      "multi_token",      "vtrace_async"};
  std::set<std::string> present;
  for (const auto& entry : std::filesystem::directory_iterator("configs"))
    if (!entry.is_directory()) present.insert(entry.path().stem().string());  // algorithms/ has a separate test
  CHECK(present == tested);
}
