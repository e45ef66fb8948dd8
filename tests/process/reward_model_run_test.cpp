// Token runs with a reward model, with real processes: in workers of other processes, killed and resumed, and with
// another model.

#include <signal.h>

#include <filesystem>

#include "tests/process/random_reward.h"
#include "tests/process/train_process.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

std::string weights_of(const std::string& run, uint64_t updates) {
  return posix_disk().read(checkpoint_folder(run, updates) + "/model.safetensors");
}

}  // namespace

TEST_CASE("reward model: workers of other processes score with it, inference needs none, and another one is refused") {
  TempFolder folder;
  RandomReward reward(folder.path());
  TokenTrainProcess run(folder.path(),
                        set(reward.settings()) + set({"stop.updates=1000000", "workers.count=0", "inference.count=0"}));
  auto worker = start_worker(run.workers_at());
  const Process inference({"troupe", "inference", "--connect", run.workers_at()});
  REQUIRE(run.makes_updates(3));
  const Json parts = metrics_of(run.folder()).at("episodes").at("return_parts");
  CHECK(parts.contains("task"));
  CHECK(parts.at("reward_model") != 0.0);
  reward.change();
  const CommandLine other({"troupe", "worker", "--connect", run.workers_at()});
  CHECK(other.exit_code == 2);
  CHECK_MESSAGE(has(other.err, "does not fit the run: reward_model (the hash of the weights in reward_model.path) is "),
                other.err);
  std::filesystem::rename(reward.folder, folder / "elsewhere");
  const CommandLine without({"troupe", "worker", "--connect", run.workers_at()});
  CHECK(without.exit_code == 2);
  CHECK_MESSAGE(has(without.err, "troupe: --connect " + run.workers_at() + ": reward_model.path: " + reward.folder +
                                     ": there is no such folder, expected one with "),
                without.err);
  REQUIRE(run.makes_updates(1));
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(balances(run.summary().at("ledger")));
  CHECK(run.summary().at("ledger").at("verifier_failed") == 0);
}

TEST_CASE("reward model: one that was moved is used from its new place, and a run with one does not go on without") {
  TempFolder folder;
  const RandomReward reward(folder.path());
  const Words line = token_train_line(folder.path(), set({"reward_model.path=" + reward.folder, "stop.updates=2"}));
  const std::string run = folder / "run", elsewhere = folder / "elsewhere";
  REQUIRE(CommandLine(line).exit_code == 0);
  std::filesystem::rename(reward.folder, elsewhere);
  const Words moved = set({"reward_model.path=" + elsewhere});
  for (const Words& use : {Words{"troupe", "eval", run} + moved, line + moved + set({"stop.updates=3"})}) {
    const CommandLine used(use);
    CHECK_MESSAGE(used.exit_code == 0, used.err);
  }
  const CommandLine without(line + set({"reward_model.path=\"\"", "stop.updates=4"}));
  CHECK(without.exit_code == 2);
  CHECK_MESSAGE(has(without.err, "cannot resume: reward_model.path was \"" + elsewhere + "\" and is now \"\"; give it"),
                without.err);
}

TEST_CASE("reward model: a deterministic run that is killed and resumed ends with the same bytes") {
  TempFolder folder, whole;
  const RandomReward reward(folder.path());
  const Words line =
      set(reward.settings()) + set({"deterministic=true", "checkpoint.every_updates=10", "stop.updates=200"});
  REQUIRE(CommandLine(token_train_line(whole.path(), line)).exit_code == 0);
  const std::string run = folder / "run";
  {
    Process killed(token_train_line(folder.path(), line));
    REQUIRE(eventually([&] { return !checkpoints_of(run).empty(); }));
    killed.signal(SIGKILL);
    CHECK(killed.wait().value_or(-1) == 128 + SIGKILL);
  }
  const CommandLine resumed(token_train_line(folder.path(), line));
  CHECK_MESSAGE(resumed.exit_code == 0, resumed.err);
  CHECK(weights_of(run, 200) == weights_of(whole / "run", 200));
}

TEST_CASE("reward model: another one is refused at a resume and by eval, not by export") {
  TempFolder folder;
  RandomReward reward(folder.path());
  const Words line = token_train_line(folder.path(), set(reward.settings()) + set({"stop.updates=2"}));
  const std::string run = folder / "run";
  REQUIRE(CommandLine(line).exit_code == 0);
  CHECK(json_of(run + "/made_of.json").contains("reward_model"));
  const CommandLine shown({"troupe", "play", run});
  CHECK_MESSAGE(shown.exit_code == 0, shown.err);
  CHECK_MESSAGE(has(shown.out, "  (reward "), shown.out);
  const CommandLine evaluated({"troupe", "eval", run});
  CHECK_MESSAGE(evaluated.exit_code == 0, evaluated.err);
  reward.change();
  const Words more = line + set({"stop.updates=3"}), eval = {"troupe", "eval", run}, play = {"troupe", "play", run};
  for (const Words& use : {more, eval, play}) {
    const CommandLine refused(use);
    CHECK(refused.exit_code == 2);
    CHECK_MESSAGE(has(refused.err,
                      "the run was made of something else (made_of.json): reward_model (the hash of the weights in "
                      "reward_model.path) was "),
                  refused.err);
  }
  CHECK(CommandLine({"troupe", "export", run, "--hf", folder / "hf"}).exit_code == 0);
  // A list that somebody has taken the reward model out of is no way around the check.
  Json list = json_of(run + "/made_of.json");
  list.erase("reward_model");
  posix_disk().write_atomic(run + "/made_of.json", list.dump());
  for (const Words& use : {more, eval, play})
    CHECK(has(CommandLine(use).err,
              "(made_of.json): reward_model (the hash of the weights in reward_model.path) was missing and is now "));
}

TEST_CASE("reward model: export and play do not need its folder, eval and a resume do") {
  TempFolder folder;
  const RandomReward reward(folder.path());
  const Words line = token_train_line(folder.path(), set(reward.settings()) + set({"stop.updates=2"}));
  const std::string run = folder / "run";
  const CommandLine trained(line);
  REQUIRE(trained.exit_code == 0);
  CHECK_MESSAGE(has(trained.out, ", reward "), trained.out);
  std::filesystem::rename(reward.folder, folder / "elsewhere");
  const std::string gone = "reward_model.path: " + reward.folder + ": there is no such folder";
  const CommandLine exported({"troupe", "export", run, "--hf", folder / "hf"});
  CHECK_MESSAGE(exported.exit_code == 0, exported.err);
  const CommandLine asked({"troupe", "play", run, "--prompt", "12>"});
  CHECK_MESSAGE(asked.exit_code == 0, asked.err);
  CHECK(asked.err.empty());
  const CommandLine shown({"troupe", "play", run});
  CHECK_MESSAGE(shown.exit_code == 0, shown.err);
  CHECK_MESSAGE(has(shown.err, gone + "; the answers are shown without rewards"), shown.err);
  CHECK(!has(shown.out, "reward"));
  for (const Words& use : {line + set({"stop.updates=3"}), Words{"troupe", "eval", run}}) {
    const CommandLine refused(use);
    CHECK(refused.exit_code == 2);
    CHECK_MESSAGE(has(refused.err, gone), refused.err);
  }
}
