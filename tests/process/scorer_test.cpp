// Runs whose frozen models are computed with by scorers, in the run's process and in others.

#include <signal.h>

#include <memory>
#include <vector>

#include "tests/process/random_reward.h"
#include "tests/process/train_process.h"
#include "tests/support/config_error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const Words kReference = set({"reference.model=start", "warmup.steps=3"});
const Words kByScorers = kReference + set({"reference.computed_by=scorers"});

std::string weights_of(const std::string& run, uint64_t updates) {
  return posix_disk().read(checkpoint_folder(run, updates) + "/model.safetensors");
}

std::unique_ptr<Process> start_scorer(const std::string& address) {
  return std::make_unique<Process>(Words{"troupe", "scorer", "--connect", address});
}

void kill(std::unique_ptr<Process>& process) {
  process->signal(SIGKILL);
  CHECK(process->wait().value_or(-1) == 128 + SIGKILL);
}

}  // namespace

TEST_CASE("scorer: a run has the same bytes whoever computes with its frozen models") {
  const TempFolder files;
  const RandomReward reward(files.path());
  const Words critic = set({"algorithm.advantage=gae", "model.critic=separate", "reference.kl_controller=adaptive",
                            "reference.kl_horizon=500", "algorithm.reward_clip=1"});
  const Words loss = set({"reference.in=loss", "reference.kl=k3", "algorithm.advantage=remax"});
  for (const Words& settings : {critic, loss}) {
    const TempFolder folders[2];
    const Words line = kReference + set(reward.settings()) + settings + set({"deterministic=true", "stop.updates=12"});
    const Words moved = set({"reference.computed_by=scorers", "reward_model.computed_by=scorers", "scorers.count=2",
                             "scorers.batch_tokens=20", "workers.count=2"});
    const Words same = set({"workers.count=2"});
    for (const int i : {0, 1}) {
      const CommandLine run(token_train_line(folders[i].path(), line + (i == 0 ? same : moved)));
      REQUIRE_MESSAGE(run.exit_code == 0, run.err);
    }
    CHECK(weights_of(folders[0] / "run", 12) == weights_of(folders[1] / "run", 12));
    const Json figures = metrics_of(folders[1] / "run");
    CHECK(figures.at("scorers").at("up") == 2);
    CHECK(figures.at("scorers").at("answers") >= 12);
    CHECK(figures.at("scorers").at("failed") == 0);
    const Json trainer = metrics_of(folders[0] / "run");
    CHECK(trainer.at("scorers").at("up") == 0);
    for (const char* name : {"reference_kl", "reference_kl_coef"})
      CHECK(figures.at("learner").at(name) == trainer.at("learner").at(name));
    CHECK(figures.at("episodes").at("return_parts") == trainer.at("episodes").at("return_parts"));
  }
}

TEST_CASE("scorer: a deterministic run that is killed and resumed ends with the same bytes") {
  const TempFolder folder, whole;
  const Words line = kByScorers + set({"deterministic=true", "scorers.count=2", "workers.count=2",
                                       "checkpoint.every_updates=5", "stop.updates=100"});
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
  CHECK(weights_of(run, 100) == weights_of(whole / "run", 100));
  CHECK(text_of(run + "/metrics.jsonl") == text_of(whole / "run/metrics.jsonl"));
}

TEST_CASE("scorer: processes join, are killed and replaced, and the ledger balances") {
  const TempFolder folder;
  const RandomReward reward(folder.path());
  const Words elsewhere = set({"workers.count=0", "inference.count=0", "scorers.count=0", "replay.max_policy_lag=4",
                               "stop.updates=1000000", "reward_model.computed_by=scorers"});
  TokenTrainProcess run(folder.path(), kByScorers + set(reward.settings()) + elsewhere);
  auto worker = start_worker(run.workers_at());
  Process inference({"troupe", "inference", "--connect", run.workers_at()});
  auto scorer = start_scorer(run.workers_at());
  REQUIRE(run.makes_updates(3));
  auto second = start_scorer(run.workers_at());
  REQUIRE(eventually([&] { return metrics_of(run.folder()).at("scorers").at("up") == 2; }));
  for (int round = 0; round < 2; ++round) {
    kill(scorer);
    REQUIRE(run.makes_updates(2));  // by the other one
    kill(second);
    scorer = start_scorer(run.workers_at());
    REQUIRE(run.makes_updates(2));
    second = start_scorer(run.workers_at());
    kill(worker);
    worker = start_worker(run.workers_at());
    REQUIRE(run.makes_updates(2));
  }
  const Json figures = metrics_of(run.folder());
  CHECK(figures.at("scorers").at("failed") == 0);
  CHECK(figures.at("learner").at("reference_kl").is_number());
  CHECK(figures.at("episodes").at("return_parts").contains("reward_model"));
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(balances(run.summary().at("ledger")));
  CHECK(scorer->wait().has_value());
}

TEST_CASE("scorer: a reward model alone needs no weights from the run") {
  const TempFolder folder;
  const RandomReward reward(folder.path());
  TokenTrainProcess run(folder.path(), set(reward.settings()) + set({"reward_model.computed_by=scorers",
                                                                     "scorers.count=0", "stop.updates=1000000"}));
  const auto scorer = start_scorer(run.workers_at());
  REQUIRE(run.makes_updates(3));
  CHECK(metrics_of(run.folder()).at("episodes").at("return_parts").contains("reward_model"));
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(scorer->wait().value_or(-1) == 0);
}

TEST_CASE("scorer: a run without scorers refuses one, and settings that do not fit are refused") {
  const TempFolder folder;
  {
    TokenTrainProcess run(folder.path(), kReference + set({"stop.updates=1000000"}));
    const CommandLine refused({"troupe", "scorer", "--connect", run.workers_at()});
    CHECK(refused.exit_code == 2);
    CHECK_MESSAGE(has(refused.err, "this run has nothing for a scorer to compute; train with reference.computed_by"),
                  refused.err);
    CHECK(run.interrupt().value_or(-1) == 130);
  }
  const auto refuses = [&](const Words& settings, const std::string& why) {
    const TempFolder none;
    const CommandLine line(token_train_line(none.path(), settings));
    CHECK(line.exit_code == 2);
    CHECK_MESSAGE(has(line.err, why), line.err);
  };
  refuses(set({"reference.computed_by=scorers"}),
          "reference.computed_by: \"scorers\" has no effect with reference.model");
  refuses(set({"scorers.count=2"}), "scorers.count: 2 has no effect with reference.computed_by \"trainer\"");
  refuses(kByScorers + set({"reference.in=loss", "reference.kl=full"}),
          "reference.kl: \"full\" cannot be used with reference.computed_by \"scorers\"");
  refuses(kByScorers + set({"deterministic=true", "scorers.count=0"}), "scorers.count: 0 cannot go with deterministic");
}
