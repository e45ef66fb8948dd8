// What the list of runs shows and sorts by.
#include "tools/cli/run_table.h"

#include <cmath>

#include "runtime/base/errors.h"
#include "runtime/base/memory_disk.h"
#include "tests/support/test.h"
#include "tests/tools/troupe_program.h"
#include "tools/cli/run_details.h"

using namespace troupe;
using namespace troupe::test;

namespace {

ListedRun listed(const std::string& folder, Record last = {}) {
  ListedRun each;
  each.run.folder = folder;
  each.run.name = "cartpole";
  each.run.last = std::move(last);
  return each;
}

std::vector<std::string> folders_of(const std::vector<ListedRun>& runs) {
  std::vector<std::string> folders;
  for (const ListedRun& each : runs) folders.push_back(each.run.folder);
  return folders;
}

// Three runs, of which the second has no KL.
std::vector<ListedRun> three() {
  return {listed("a", {{"learner.kl", 0.00002}}), listed("b"), listed("c", {{"learner.kl", 0.5}})};
}

RunOverview run_with(const Disk& disk, RunState state) {
  RunOverview run;
  run.folder = "run";
  run.state = state;
  run.env_steps_per_second = 5;
  run.last = read_last_records(disk, "run", false).last;
  return run;
}

}  // namespace

TEST_CASE("sort_by_key: the largest first or last, runs without a value at the end both times") {
  const MemoryDisk disk;
  std::vector<ListedRun> runs = three();
  CHECK(set_keys(disk, "learner.kl", runs) == "");
  sort_by_key(runs, false);
  CHECK(folders_of(runs) == std::vector<std::string>{"c", "a", "b"});
  sort_by_key(runs, true);
  CHECK(folders_of(runs) == std::vector<std::string>{"a", "c", "b"});
  set_keys(disk, "run", runs);
  sort_by_key(runs, false);
  CHECK(folders_of(runs) == std::vector<std::string>{"a", "b", "c"});
  sort_by_key(runs, true);
  CHECK(folders_of(runs) == std::vector<std::string>{"c", "b", "a"});
}

TEST_CASE("set_keys: a figure that no run has is named, and an entry that no run has is refused with near names") {
  const MemoryDisk disk;
  std::vector<ListedRun> runs = {listed("a", {{"env_failures.CartPole-v1", 3}})};
  CHECK(set_keys(disk, "learner.kl", runs) == "--sort: learner.kl: no run has a value of it");
  CHECK_THROWS_WITH_AS(
      set_keys(disk, "env_failures.CartPole-v0", runs),
      "--sort: env_failures.CartPole-v0: no run has this entry, did you mean env_failures.CartPole-v1?", ConfigError);
}

TEST_CASE("set_keys: a figure of evaluations is that of the newest evaluation") {
  MemoryDisk disk;
  disk.write_atomic("run/metrics.jsonl",
                    "{\"env_steps\":10,\"eval\":{\"return_mean\":7}}\n{\"env_steps\":20,\"eval\":null}\n");
  std::vector<ListedRun> runs = {listed("run", read_last_records(disk, "run", false).last)};
  CHECK(set_keys(disk, "eval.return_mean", runs) == "");
  CHECK(std::get<double>(runs[0].key) == 7);
}

TEST_CASE("parse_sort: refuses entries of a figure that has none") {
  CHECK(parse_sort("--sort", "speed") == "speed");
  CHECK(parse_sort("--sort", "env_failures.any") == "env_failures.any");
  CHECK_THROWS_AS(parse_sort("--sort", "learner.kl.any"), ConfigError);
}

TEST_CASE("run_table: shows the figure that runs are sorted by") {
  const MemoryDisk disk;
  std::vector<ListedRun> runs = three();
  set_keys(disk, "learner.kl", runs);
  const std::vector<std::string> lines = lines_of(run_table(runs, "learner.kl", SIZE_MAX));
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].find("learner.kl") != std::string::npos);
  CHECK(lines[1].find("2.0e-05") != std::string::npos);
  CHECK(lines[3].find("0.5000") != std::string::npos);
  CHECK(run_table(runs, "score", SIZE_MAX) == run_table(runs, "", SIZE_MAX));
}

TEST_CASE("run_table: bottleneck and alarms are columns if a run has them, and the speed is called a mean") {
  std::vector<ListedRun> runs = three();
  CHECK(run_table(runs, "", SIZE_MAX).find("bottleneck") == std::string::npos);
  CHECK(run_table(runs, "", SIZE_MAX).find("alarms") == std::string::npos);
  CHECK(run_table(runs, "", SIZE_MAX).find("mean steps/s") != std::string::npos);
  runs[0].bottleneck = "trainer 71 %";
  runs[2].alarms.raised = {{"stalled", AlarmLevel::error}, {"lag", AlarmLevel::warning}, {"disk", AlarmLevel::warning}};
  const std::vector<std::string> lines = lines_of(run_table(runs, "", SIZE_MAX));
  CHECK(lines[1].find("trainer 71 %") != std::string::npos);
  CHECK(lines[3].find("1 error, 2 warnings") != std::string::npos);
}

TEST_CASE("run_table: on a narrow terminal runs keep different names, without the folder that all are in") {
  std::vector<ListedRun> runs;
  for (const char* rate : {"0.001", "0.0001"})
    for (const char* seed : {"1", "2", "3"}) {
      runs.push_back(listed(std::string("runs/exp/policy_lr=") + rate + "_seed=" + seed));
      runs.back().alarms.raised = {{"lag", AlarmLevel::warning}};
      runs.back().differs = {{"seed", seed}, {"trainer.policy_lr", rate}};
      runs.back().bottleneck = "processors 100 %, 58 % by other programs";
    }
  const std::vector<std::string> lines = lines_of(run_table(runs, "", 80));
  CHECK(lines[1].starts_with("policy_lr=0.001_seed=1  "));
  CHECK(lines[6].starts_with("policy_lr=0.0001_seed=3  "));
  CHECK(lines[1].find("1 warning") != std::string::npos);
  CHECK(lines[7].starts_with("no room for: differs, config, bottleneck, reason ("));
  CHECK(lines.back() == "the runs are in runs/exp/");
  CHECK(lines_of(run_table(runs, "", SIZE_MAX))[1].starts_with("runs/exp/policy_lr=0.001_seed=1  "));
}

TEST_CASE("run_table: settings that differ come before figures, unless the names of the runs say them") {
  std::vector<ListedRun> runs = {listed("runs/a"), listed("runs/b")};
  runs[0].differs = {{"trainer.policy_lr", "0.001"}};
  runs[1].differs = {{"trainer.policy_lr", "0.0001"}};
  for (ListedRun& each : runs) each.bottleneck = "processors 100 %, 58 % by other programs";
  const std::string table = run_table(runs, "", 60);
  CHECK(table.find("trainer.policy_lr=0.0001") != std::string::npos);
  CHECK(table.find("differs") < table.find("state"));
}

TEST_CASE("set_keys: alarms of the whole run, errors before any number of warnings, and the share of the verdict") {
  const MemoryDisk disk;
  std::vector<ListedRun> runs = three();
  runs[0].alarms.raised = {{"lag", AlarmLevel::warning}, {"disk", AlarmLevel::warning}};
  runs[1].alarms.raised = {{"stalled", AlarmLevel::error}};
  CHECK(set_keys(disk, "alarms", runs) == "");
  sort_by_key(runs, false);
  CHECK(folders_of(runs) == std::vector<std::string>{"b", "a", "c"});
  CHECK(run_table(runs, "alarms", SIZE_MAX) == run_table(runs, "", SIZE_MAX));
  runs[1].run.verdict_share = 0.7;
  CHECK(set_keys(disk, "bottleneck.share", runs) == "");
  CHECK(std::get<double>(runs[1].key) == 0.7);
}

TEST_CASE("run_table: a figure that no run has is no column") {
  const MemoryDisk disk;
  std::vector<ListedRun> runs = {listed("a"), listed("b")};
  set_keys(disk, "learner.kl", runs);
  CHECK(run_table(runs, "learner.kl", SIZE_MAX).find("learner.kl") == std::string::npos);
}

TEST_CASE("alarms_of_run: those of alarms.json; of a run without one those of its records") {
  MemoryDisk disk;
  disk.write_atomic("run/metrics.jsonl", "{\"env_steps\":1,\"alarms\":{\"kl\":2}}\n");
  RunOverview run = run_with(disk, RunState::crashed);
  run.last = {{"alarms.kl", 2}};
  const AlarmLevels recorded = {{"kl", AlarmLevel::error}};
  CHECK(alarms_of_run(disk, run) == RunAlarms{recorded, recorded});
  disk.write_atomic("run/alarms.json", R"({"alarms": [{"alarm": "lag", "level": "error", "standing": false},
      {"alarm": "ess", "level": "warning", "standing": true}, {"alarm": "lag", "level": "warning", "standing": true}]})");
  CHECK(alarms_of_run(disk, run) == RunAlarms{{{"ess", AlarmLevel::warning}, {"lag", AlarmLevel::error}},
                                              {{"ess", AlarmLevel::warning}, {"lag", AlarmLevel::warning}}});
}

TEST_CASE("count_of: how many alarms of each level") {
  const AlarmLevels alarms = {{"kl", AlarmLevel::error}, {"lag", AlarmLevel::warning}, {"ess", AlarmLevel::warning}};
  CHECK(text_of(count_of(alarms)) == "1 error, 2 warnings");
}

TEST_CASE("mean_speed: from the first record with experience to the newest, whatever the start-up took") {
  MemoryDisk disk;
  disk.write_atomic("run/metrics.jsonl",
                    "{\"elapsed_seconds\":50,\"env_steps\":0}\n{\"elapsed_seconds\":60,\"env_steps\":1000}\n"
                    "{\"elapsed_seconds\":61,\"env_steps\":2000}\n{\"elapsed_seconds\":70,\"env_steps\":11000}\n");
  CHECK(mean_speed(disk, run_with(disk, RunState::finished)) == 1000);
}

TEST_CASE("mean_speed: without times, or with one record, it is the speed that the folder names") {
  MemoryDisk disk;
  disk.write_atomic("run/metrics.jsonl",
                    "{\"elapsed_seconds\":null,\"env_steps\":1}\n{\"elapsed_seconds\":null,\"env_steps\":2}\n");
  CHECK(mean_speed(disk, run_with(disk, RunState::finished)) == 5);
  disk.write_atomic("run/metrics.jsonl", "{\"elapsed_seconds\":1,\"env_steps\":1}\n");
  CHECK(mean_speed(disk, run_with(disk, RunState::running)) == 5);
  disk.write_atomic("run/metrics.jsonl", "");
  CHECK(mean_speed(disk, run_with(disk, RunState::running)) == 5);
}

TEST_CASE("bottleneck_of_run: the longest verdict of a run that has ended, that of the newest record of another") {
  MemoryDisk disk;
  disk.write_atomic("run/metrics.jsonl",
                    "{\"env_steps\":1,\"updates\":1,\"bottleneck\":{\"what\":\"x\",\"resource\":\"workers\"}}\n");
  RunOverview run = run_with(disk, RunState::finished);
  run.verdict = "few environments";
  run.verdict_share = 0.3;
  CHECK(bottleneck_of_run(disk, run) == "few environments 30 %");
  run.verdict_share = RunOverview::kNone;
  CHECK(bottleneck_of_run(disk, run) == "few environments");
  CHECK(bottleneck_of_run(disk, run_with(disk, RunState::running)) == "x");
  CHECK(bottleneck_of_run(disk, run_with(disk, RunState::stopped)) == "");
}
