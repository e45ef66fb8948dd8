// Alarms that act: --on-alarm and stop.on_collapse. A learning rate of 3 makes the policy jump in its first updates,
// which raises kl_extreme.
#include <algorithm>

#include "tests/process/train_process.h"
#include "tests/support/run_command.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const Words kJumps = set({"trainer.policy_lr=3", "trainer.max_grad_norm=0", "stop.env_steps=0", "stop.updates=60"});

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
