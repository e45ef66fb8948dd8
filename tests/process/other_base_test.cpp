// Processes that join a run with adapters or with scorers: which models they read, and what they say when one of them
// is not that of the run.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tests/process/random_reward.h"
#include "tests/process/train_process.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

namespace fs = std::filesystem;

const Words kEndless = set({"stop.updates=1000000"});

// A folder of transformers with a small model, FOLDER/NAME.
std::string exported_model(const std::string& folder, const std::string& name, const Words& more = {}) {
  const TempFolder run;
  REQUIRE(CommandLine(token_train_line(run.path(), set({"stop.updates=1"}) + more)).exit_code == 0);
  REQUIRE(CommandLine({"troupe", "export", run / "run", "--hf", folder + '/' + name}).exit_code == 0);
  return folder + '/' + name;
}

Words adapters(const std::string& base) {
  return set({"model.path=" + base, R"(model.lora={"rank": 2})", "model.decoder={}"});
}

Words joins(const std::string& kind, const std::string& address) { return {"troupe", kind, "--connect", address}; }

}  // namespace

TEST_CASE("base: a process whose model.path has other weights or another shape is refused with both values") {
  const TempFolder folder;
  const std::string base = exported_model(folder.path(), "base");
  const std::string other = exported_model(folder.path(), "other", set({"seed=2"}));
  TokenTrainProcess run(folder.path(),
                        kEndless + adapters(base) + set({"reference.model=start", "reference.computed_by=scorers"}));
  REQUIRE(run.makes_updates(1));
  const auto refusal = [&](const std::string& kind) {
    const CommandLine refused(joins(kind, run.workers_at()));
    CHECK(refused.exit_code == 2);
    return refused.err;
  };
  const std::string hash = json_of(run.folder() + "/made_of.json").at("model.base"), weights = "/model.safetensors";
  fs::rename(base + weights, folder / "kept");
  fs::copy(other + weights, base + weights);
  for (const std::string kind : {"inference", "scorer"}) {
    const std::string error = refusal(kind);
    CHECK_MESSAGE(has(error, "the " + kind +
                                 " process does not fit the run: model.base (the hash of the weights in "
                                 "model.path) is "),
                  error);
    CHECK_MESSAGE(has(error, ", in the run " + hash + "; give this process the files of the run\n"), error);
  }
  fs::rename(folder / "kept", base + weights);
  Json config = json_of(base + "/config.json");
  config["rope_theta"] = 500.0;
  std::ofstream(base + "/config.json") << config.dump();
  for (const std::string kind : {"inference", "scorer"}) {
    const std::string error = refusal(kind);
    CHECK_MESSAGE(has(error, ": model.path: " + base +
                                 "/config.json is not the model of the run: rope_theta 500.0 "
                                 "instead of 10000.0; give the folder of that model\n"),
                  error);
  }
  CHECK(run.interrupt().value_or(-1) == 130);
}

TEST_CASE("scorer: a process that computes with the reward model alone does not read the model of the policy") {
  const TempFolder folder;
  const std::string base = exported_model(folder.path(), "base");
  const RandomReward reward(folder.path());
  TokenTrainProcess run(folder.path(), kEndless + adapters(base) + set(reward.settings()) +
                                           set({"reward_model.computed_by=scorers", "scorers.count=0",
                                                "reference.model=start", "reference.computed_by=trainer"}));
  fs::rename(base, folder / "elsewhere");
  Process scorer(joins("scorer", run.workers_at()));
  CHECK(run.makes_updates(2));
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(scorer.wait().value_or(-1) == 0);
}

TEST_CASE("scorer: a process that computes with the reference alone does not read the reward model") {
  const TempFolder folder;
  const RandomReward reward(folder.path());
  TokenTrainProcess run(folder.path(),
                        kEndless + set(reward.settings()) +
                            set({"reference.model=start", "reference.computed_by=scorers", "scorers.count=0"}));
  fs::rename(reward.folder, folder / "elsewhere");
  Process scorer(joins("scorer", run.workers_at()));
  CHECK(run.makes_updates(2));
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(scorer.wait().value_or(-1) == 0);
}
