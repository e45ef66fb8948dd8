// Alarms that act: --on-alarm and stop.on_collapse; and alarms.json, which a run that was killed leaves. A learning
// rate of 3 makes the policy jump in its first updates, which raises kl_extreme.
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "tests/process/train_process.h"
#include "tests/support/run_command.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const Words kJumps = set({"trainer.policy_lr=3", "trainer.max_grad_norm=0", "stop.env_steps=0", "stop.updates=60"});
// The same, for a run that is killed.
const Words kJumpsForLong = kJumps + set({"stop.updates=1000000", "checkpoint.every_updates=2"});

// What `troupe runs` says of the alarms of a run.
Json alarms_listed(const std::string& folder) {
  const CommandLine listed({"troupe", "runs", folder, "--json"});
  REQUIRE_MESSAGE(listed.exit_code == 0, listed.err);
  return Json::parse(listed.out).at("runs").at(0).at("alarms");
}

// Kills the run once it has this alarm and a checkpoint.
void kill_after(const std::string& alarm, Process& run, const std::string& folder) {
  REQUIRE(eventually(
      [&] { return has(text_of(folder + "/alarms.json"), '"' + alarm + '"') && !checkpoints_of(folder).empty(); }));
  run.signal(SIGKILL);
  REQUIRE(run.wait() == 128 + SIGKILL);
}

}  // namespace

TEST_CASE("alarms: --on-alarm runs the command once for each alarm that the log has, with its name and level") {
  const TempFolder folder;
  const std::string told = folder / "told";
  const CommandLine run(
      train_line(folder / "run", kJumps + Words{"--on-alarm", "echo \"$TROUPE_ALARM $TROUPE_ALARM_LEVEL\" >> " + told +
                                                                  "; echo in the log; exit 4"}));
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const std::string lines = text_of(told);
  CHECK(has(lines, "kl_extreme error\n"));
  const size_t raised = log_count(folder / "run", ") at update ");
  CHECK(static_cast<size_t>(std::ranges::count(lines, '\n')) == raised);
  CHECK(log_has(folder / "run", "in the log"));
  CHECK(log_has(folder / "run", "alarm kl_extreme: the command ended with exit code 4"));
}

TEST_CASE("alarms: stop.on_collapse ends the run with a checkpoint and the reason, and a resume goes on") {
  const TempFolder folder;
  const Words line = train_line(folder / "run", kJumps + set({"stop.on_collapse=true"}));
  const CommandLine ended(line);
  CHECK_MESSAGE(ended.exit_code == 0, ended.err);
  CHECK(has(ended.out, "stop.on_collapse (kl_extreme) after "));
  const Json summary = json_of(folder / "run/summary.json");
  CHECK(summary.at("reason") == "stop.on_collapse (kl_extreme)");
  const uint64_t updates = summary.at("updates");
  CHECK(updates < 60);
  REQUIRE_FALSE(checkpoints_of(folder / "run").empty());
  CHECK(checkpoints_of(folder / "run").back() == updates);
  // The alarm that is still raised does not end the run again; the policy is dead, and its KL divergence 0.
  const CommandLine resumed(line);
  CHECK_MESSAGE(resumed.exit_code == 0, resumed.err);
  CHECK(json_of(folder / "run/summary.json").at("updates").get<uint64_t>() > updates);
}

TEST_CASE("alarms: a deterministic run ends at the same update with stop.on_collapse") {
  const TempFolder folder;
  const auto updates = [&](const std::string& name) {
    const CommandLine run(train_line(
        folder / name, kJumps + set({"deterministic=true", "stop.on_collapse=true", "stats.every_updates=7"})));
    CHECK_MESSAGE(run.exit_code == 0, run.err);
    const Json summary = json_of(folder / name + "/summary.json");
    CHECK(summary.at("reason") == "stop.on_collapse (kl_extreme)");
    return summary.at("updates").get<uint64_t>();
  };
  const uint64_t first = updates("a");
  CHECK(first < 60);
  CHECK(updates("b") == first);
}

TEST_CASE("alarms: a run that is killed lists those it had, and keeps them when it goes on") {
  const TempFolder folder;
  TrainProcess killed(folder / "run", kJumpsForLong);
  kill_after("kl_extreme", killed.process(), folder / "run");
  CHECK(alarms_listed(folder / "run").at("raised").at("kl_extreme") == "error");
  const Json before = json_of(folder / "run/alarms.json").at("alarms");
  TrainProcess resumed(folder / "run", kJumpsForLong);
  CHECK(resumed.makes_updates(2));
  CHECK(resumed.interrupt() == 130);
  const Json after = json_of(folder / "run/alarms.json").at("alarms");
  REQUIRE(after.size() >= before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    CHECK(after[i].at("alarm") == before[i].at("alarm"));
    CHECK(after[i].at("since_update") == before[i].at("since_update"));
    CHECK(after[i].at("text") == before[i].at("text"));
  }
}

TEST_CASE("alarms: those of a run of a version without alarms.json are in its records, also once it is resumed") {
  const TempFolder folder;
  const CommandLine run(train_line(folder / "run", kJumps));
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  std::filesystem::remove(folder / "run/alarms.json");
  const Json raised = alarms_listed(folder / "run").at("raised");
  CHECK(raised.contains("kl_extreme"));
  const CommandLine resumed(train_line(folder / "run", kJumps + set({"stop.updates=64"})));
  REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
  const Json now = alarms_listed(folder / "run").at("raised");
  for (const auto& [name, level] : raised.items()) CHECK_MESSAGE(now.value(name, "") == level, name);
  CHECK(std::filesystem::exists(folder / "run/alarms.json"));
}

TEST_CASE("alarms: a deterministic run that is killed and resumed leaves the same alarms.json") {
  const TempFolder folder;
  const Words settings =
      kJumps + set({"deterministic=true", "stats.every_updates=3", "checkpoint.every_updates=5", "stop.updates=200"});
  const CommandLine whole(train_line(folder / "whole", settings));
  REQUIRE_MESSAGE(whole.exit_code == 0, whole.err);
  Process killed(train_line(folder / "run", settings));
  kill_after("kl_extreme", killed, folder / "run");
  const CommandLine resumed(train_line(folder / "run", settings));
  REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
  CHECK(has(text_of(folder / "whole/alarms.json"), "kl_extreme"));
  CHECK(text_of(folder / "run/alarms.json") == text_of(folder / "whole/alarms.json"));
}
