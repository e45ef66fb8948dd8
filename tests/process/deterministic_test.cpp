// Deterministic runs: the same bytes from the same seed, whatever happened on the way.
#include <signal.h>

#include <filesystem>

#include "tests/process/train_process.h"
#include "tests/support/test.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string name;
  Words settings;
};

// Small enough for a second each; every one has another part of the state that must come back.
const Case kCases[] = {
    {"synchronous", {"replay.max_policy_lag=0"}},
    {"lag 1", {"replay.max_policy_lag=1"}},
    {"lag 3, two workers, two inference actors", {"replay.max_policy_lag=3", "workers.count=2", "inference.count=2"}},
    {"reuse", {"replay.mode=reuse", "replay.max_policy_lag=4", "replay.max_reuse=3"}},
    {"v-trace", {"algorithm.advantage=vtrace", "replay.max_policy_lag=3"}},
    {"one group, odd sizes", {"workers.groups=1", "env.rows=5", "rollout.length=7", "replay.max_policy_lag=2"}},
    {"continuous, normalised",
     {"env.id=Pendulum-v1", "model.normalize_observations=true", "model.normalize_returns=true"}},
    {"action masks", {"env.id=GridWorld"}},
    {"task sampling, chunks", {"env.id=TokenReach", "algorithm.ratio=per_dimension"}},
    {"environments that fail", {"env.id=Synthetic", R"(env.params={"image_height": 4, "image_width": 4, "exception_probability": 0.01, "nan_probability": 0.01})"}},
    {"evaluations on the way", {"evaluation.every_updates=4"}},
};

Words line_of(const std::string& folder, const Words& settings, int updates = 80) {
  Words words{"troupe", "train", "cartpole", "--run", folder};
  Words all{"deterministic=true",       "env.rows=8",          "rollout.length=8",         "trainer.super_batch=256",
            "stats.every_updates=2",    "stop.env_steps=0",    "stop.updates=" + std::to_string(updates),
            "checkpoint.every_updates=5", "checkpoint.keep=0", "evaluation.episodes=2",    "evaluation.rows=2"};
  all.insert(all.end(), settings.begin(), settings.end());
  const Words set_all = set(all);
  words.insert(words.end(), set_all.begin(), set_all.end());
  return words;
}

int run(const Words& line) {
  const CommandLine done(line);
  INFO(done.err);
  CHECK(done.exit_code == 0);
  return done.exit_code;
}

// The files of the checkpoint at `update`, by name, and the metrics.
std::map<std::string, std::string> results_of(const std::string& folder, uint64_t update) {
  std::map<std::string, std::string> files{{"metrics.jsonl", text_of(folder + "/metrics.jsonl")}};
  std::string name = std::to_string(update);
  name.insert(0, 12 - name.size(), '0');
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder + "/checkpoints/" + name, none))
    files[entry.path().filename()] = text_of(entry.path());
  return files;
}

void check_same(const std::string& folder, const std::string& reference, uint64_t update = 80) {
  const auto got = results_of(folder, update), wanted = results_of(reference, update);
  REQUIRE(wanted.size() == 5);  // metrics, model, optimizer, extras, state
  REQUIRE(got.size() == wanted.size());
  for (const auto& [name, bytes] : wanted) {
    CAPTURE(name);
    CHECK(!bytes.empty());
    CHECK((got.at(name) == bytes));
  }
}

// Starts the run and ends it by `signal` once it has a checkpoint after `update`; the newest checkpoint then.
uint64_t cut_off(const Words& line, const std::string& folder, uint64_t update, int signal) {
  Process process(line);
  const auto newest = [&] {
    const auto all = checkpoints_of(folder);
    return all.empty() ? uint64_t{0} : all.back();
  };
  REQUIRE(eventually([&] { return newest() > update || process.exit_code(); }));
  process.signal(signal);
  CHECK(process.wait().value_or(-1) == (signal == SIGKILL ? 128 + SIGKILL : 130));
  return newest();
}

}  // namespace

TEST_CASE("deterministic: killed, interrupted and resumed equals uninterrupted, byte for byte") {
  for (const Case& each : kCases) {
    CAPTURE(each.name);
    TempFolder folder;
    REQUIRE(run(line_of(folder / "whole", each.settings)) == 0);
    const Words line = line_of(folder / "parts", each.settings);
    const uint64_t killed_at = cut_off(line, folder / "parts", 0, SIGKILL);
    CHECK(killed_at < 80);
    const uint64_t stopped_at = cut_off(line, folder / "parts", killed_at, SIGINT);
    CHECK(stopped_at < 80);
    REQUIRE(run(line) == 0);
    check_same(folder / "parts", folder / "whole");
  }
}

TEST_CASE("deterministic: one seed gives one result, another seed another") {
  TempFolder folder;
  for (const std::string name : {"a", "b"}) REQUIRE(run(line_of(folder / name, {})) == 0);
  check_same(folder / "b", folder / "a");
  REQUIRE(run(line_of(folder / "c", {"seed=2"})) == 0);
  const auto a = results_of(folder / "a", 80), c = results_of(folder / "c", 80);
  CHECK((a.at("model.safetensors") != c.at("model.safetensors")));
  CHECK((a.at("metrics.jsonl") != c.at("metrics.jsonl")));
}

TEST_CASE("deterministic: a run that is made longer equals one that was long from the start") {
  TempFolder folder;
  const Words constant{"trainer.lr_schedule=constant"};  // the others look at the end of the run
  REQUIRE(run(line_of(folder / "whole", constant, 33)) == 0);
  for (int updates : {1, 2, 5, 32, 33}) REQUIRE(run(line_of(folder / "parts", constant, updates)) == 0);
  const auto got = results_of(folder / "parts", 33), wanted = results_of(folder / "whole", 33);
  for (const std::string name : {"model.safetensors", "optimizer.safetensors", "extras.safetensors", "state.json"}) {
    CAPTURE(name);
    CHECK((got.at(name) == wanted.at(name)));
  }
}

TEST_CASE("deterministic: a finished run ends again with the same bytes") {
  TempFolder folder;
  const Words line = line_of(folder / "run", {}, 7);
  REQUIRE(run(line) == 0);
  const auto before = results_of(folder / "run", 7);
  REQUIRE(run(line) == 0);
  CHECK((results_of(folder / "run", 7) == before));
}

TEST_CASE("deterministic: how often checkpoints are taken changes nothing") {
  TempFolder folder;
  REQUIRE(run(line_of(folder / "often", {"checkpoint.every_updates=1"}, 20)) == 0);
  REQUIRE(run(line_of(folder / "never", {"checkpoint.every_updates=0"}, 20)) == 0);
  check_same(folder / "often", folder / "never", 20);
}

}  // namespace troupe::test
