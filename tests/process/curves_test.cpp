// The curves that runs write to metrics.jsonl, and the totals in summary.json, for runs that finish, are interrupted or
// are killed.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "tests/process/train_process.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// The built-in config `cartpole` with these changes.
Words cartpole(const std::string& folder, const Words& settings) {
  Words line{"troupe", "train", "cartpole", "--run", folder};
  const Words all = set(settings);
  line.insert(line.end(), all.begin(), all.end());
  return line;
}

uint64_t count(const Json& object, const char* key) { return object.at(key).get<uint64_t>(); }

// Checks what holds for metrics.jsonl of every run.
void check_lines(const std::string& folder) {
  const std::vector<Json> lines = lines_of(folder);
  const Json summary = json_of(folder + "/summary.json");
  REQUIRE(summary.is_object());
  REQUIRE(lines.size() >= std::min<uint64_t>(50, count(summary, "updates")));
  for (size_t i = 0; i < lines.size(); ++i) {
    const Json& line = lines[i];
    CHECK(balances(line.at("ledger")));
    CHECK(line.at("env_steps") == line.at("ledger").at("produced"));  // CartPole's actions are single steps
    CHECK(count(line.at("workers"), "up") <= count(line.at("workers"), "total"));
    CHECK(count(line.at("workers"), "up") > 0);
    if (i == 0) continue;
    CHECK(count(line, "env_steps") > count(lines[i - 1], "env_steps"));
    CHECK(count(line, "updates") >= count(lines[i - 1], "updates"));
    CHECK(count(line.at("episodes"), "count") >= count(lines[i - 1].at("episodes"), "count"));
  }
  CHECK(lines.back().at("training_ended") == true);
  CHECK(lines.back().at("env_steps") == summary.at("env_steps"));
  CHECK(lines.back().at("updates") == summary.at("updates"));
  CHECK(lines.back().at("ledger") == summary.at("ledger"));
  CHECK(lines.back().at("episodes").at("count") == summary.at("episodes").at("count"));
  if (summary.at("eval").is_object())
    CHECK(lines.back().at("eval").at("return_mean") == summary.at("eval").at("return_mean"));
}

// Checks that the newest checkpoint, the summary and the last lines on the console report the same number of steps.
void check_ends(const std::string& folder, const std::string& out) {
  const Json summary = json_of(folder + "/summary.json");
  CHECK(state_of(folder).at("env_steps") == summary.at("env_steps"));
  std::string steps = std::to_string(count(summary, "env_steps"));
  for (size_t at = steps.size(); at > 3; at -= 3) steps.insert(at - 3, 1, ',');
  CHECK_MESSAGE(out.find(" after " + steps + " environment steps") != std::string::npos, out);
  CHECK(out.find("no worker is up: nothing") == std::string::npos);
}

void check_run(const std::string& folder, const Words& settings) {
  const CommandLine run(cartpole(folder, settings));
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  check_lines(folder);
  check_ends(folder, run.out);
}

}  // namespace

TEST_CASE("curves: a run of any length has at least as many points as updates, or 50") {
  TempFolder folder;
  for (const std::string updates : {"1", "2", "9", "60"})
    check_run(folder / updates, {"stop.env_steps=0", "stop.updates=" + updates, "trainer.epochs=1"});
}

TEST_CASE("curves: so do runs with small batches, reuse or lag 0, and deterministic runs") {
  TempFolder folder;
  const Words common{"stop.env_steps=0", "stop.updates=20", "trainer.epochs=1", "rollout.length=8", "env.rows=8"};
  int number = 0;
  for (const Words& more : std::vector<Words>{
           {"trainer.super_batch=64"},
           {"trainer.super_batch=256", "replay.max_policy_lag=0"},
           {"trainer.super_batch=256", "replay.max_policy_lag=8"},
           {"trainer.super_batch=256", "replay.mode=reuse", "replay.max_policy_lag=4", "replay.max_reuse=3"},
           {"trainer.super_batch=256", "deterministic=true"}}) {
    CAPTURE(more.back());
    Words settings = common;
    settings.insert(settings.end(), more.begin(), more.end());
    check_run(folder / std::to_string(number++), settings);
  }
}

TEST_CASE("curves: an interrupted run continues its curves and totals when it resumes") {
  TempFolder folder;
  uint64_t env_steps = 0, episodes = 0;
  double seconds = 0;
  for (int start = 1; start <= 3; ++start) {
    TrainProcess run(folder / "run", set({"stop.env_steps=0", "stop.updates=1000000"}));
    REQUIRE(run.makes_updates(5));
    CHECK(run.interrupt().value_or(-1) == 130);
    check_lines(run.folder());
    check_ends(run.folder(), run.process().out());
    const Json summary = run.summary();
    CHECK(summary.at("starts") == start);
    CHECK(count(summary, "env_steps") == env_steps + count(summary.at("last_start"), "env_steps"));
    CHECK(count(summary.at("episodes"), "count") > episodes);
    CHECK(summary.at("wall_seconds").get<double>() > seconds);
    env_steps = count(summary, "env_steps");
    episodes = count(summary.at("episodes"), "count");
    seconds = summary.at("wall_seconds");
  }
}

TEST_CASE("curves: when a killed run resumes, its curves are cut at the checkpoint, so that no count decreases") {
  TempFolder folder;
  const Words settings{"stop.env_steps=0", "stop.updates=1000000", "checkpoint.every_updates=3"};
  {
    TrainProcess run(folder / "run", set(settings));
    REQUIRE(run.makes_updates(10));
    run.process().signal(SIGKILL);
    CHECK(run.process().wait() == 128 + SIGKILL);
  }
  std::filesystem::remove(folder / "run/endpoints.json");
  TrainProcess run(folder / "run", set(settings));
  REQUIRE(run.makes_updates(5));
  CHECK(run.interrupt().value_or(-1) == 130);
  check_lines(run.folder());
  check_ends(run.folder(), run.process().out());
}

TEST_CASE("curves: steps, episodes and workers of other processes are counted like those of the trainer's process") {
  TempFolder folder;
  TrainProcess run(folder / "run", set({"workers.count=0", "stop.env_steps=0", "stop.updates=12"}));
  const auto workers = start_worker(run.workers_at(), 2);
  CHECK(run.process().wait().value_or(-1) == 0);
  CHECK(workers->wait().value_or(-1) == 0);
  check_lines(run.folder());
  check_ends(run.folder(), run.process().out());
  CHECK(run.summary().at("ledger").at("lost_in_crash") == 0);
  CHECK(run.summary().at("uncounted_at_most") == 0);
}

TEST_CASE("curves: each evaluation has one line, at the update that was evaluated, also in a run that was resumed") {
  TempFolder folder;
  const std::string at = folder / "run";
  const Words common{"stop.env_steps=0", "trainer.epochs=1", "evaluation.episodes=2", "evaluation.every_updates=4",
                     "checkpoint.every_updates=3"};
  for (const std::string updates : {"30", "41"}) {
    Words settings = common;
    settings.push_back("stop.updates=" + updates);
    const CommandLine run(cartpole(at, settings));
    REQUIRE_MESSAGE(run.exit_code == 0, run.err);
    std::vector<uint64_t> evaluated;
    uint64_t env_steps = 0;
    for (const Json& line : lines_of(at)) {
      CHECK(balances(line.at("ledger")));
      if (!line.at("eval").is_object()) {
        CHECK(count(line, "env_steps") > env_steps);
        env_steps = count(line, "env_steps");
        continue;
      }
      CHECK(line.at("updates") == line.at("eval").at("updates"));
      evaluated.push_back(count(line, "updates"));
    }
    CHECK(evaluated.size() > 1);
    CHECK(std::ranges::adjacent_find(evaluated, std::greater_equal<>()) == evaluated.end());
    CHECK(std::to_string(evaluated.back()) == updates);
    CHECK(lines_of(at).back().at("eval").at("return_mean") ==
          json_of(at + "/summary.json").at("eval").at("return_mean"));
  }
}
