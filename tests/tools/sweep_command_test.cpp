// sweep with real runs, and what runs and export tell about them.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runtime/base/file.h"
#include "tests/support/run_command.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using nlohmann::json;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

CommandResult run_troupe(Words words) {
  words.insert(words.begin(), built_program("troupe"));
  return run_command(words);
}

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Words sweep_of(const std::string& folder, const std::string& rates) {
  return {"sweep",   "cartpole",
          "--run",   folder,
          "--seeds", "2",
          "--jobs",  "2",
          "--tag",   "rates",
          "--set",   "trainer.policy_lr=" + rates,
          "--set",   "stop.updates=3",
          "--set",   "stop.env_steps=0",
          "--set",   "evaluation.episodes=2"};
}

struct Swept {
  TempFolder folder;
  std::string path = folder / "all/sweep";
  CommandResult first = run_troupe(sweep_of(path, "[1e-3, 1e-4]"));
};

const Swept& swept() {
  static const Swept made;
  return made;
}

}  // namespace

TEST_CASE("sweep: trains all combinations, each in a folder of its own, and ranks them") {
  const CommandResult& result = swept().first;
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  for (const char* run : {"policy_lr=0.001_seed=1", "policy_lr=0.0001_seed=2"})
    CHECK(fs::exists(swept().path + '/' + run + "/summary.json"));
  CHECK(result.out.find("4/4 ") != std::string::npos);
  CHECK(result.out.find("best: trainer.policy_lr=0.00") != std::string::npos);
}

TEST_CASE("sweep: the same command again trains nothing, and further values add runs") {
  REQUIRE(swept().first.exit_code == 0);
  const std::string summary = swept().path + "/policy_lr=0.001_seed=1/summary.json", before = read(summary);
  const CommandResult again = run_troupe(sweep_of(swept().path, "[1e-3]"));
  CHECK(again.exit_code == 0);
  CHECK(again.out.find("1/2 policy_lr=0.001_seed=1: had finished, evaluation ") != std::string::npos);
  CHECK(read(summary) == before);
}

TEST_CASE("sweep: a run that fails is named at the end, and the others are trained") {
  const TempFolder folder;
  const std::string path = folder / "sweep";
  fs::create_directories(path + "/policy_lr=0.001_seed=1");
  std::ofstream(path + "/policy_lr=0.001_seed=1/notes.txt") << "no run";
  const CommandResult result = run_troupe(sweep_of(path, "[1e-3]"));
  CHECK(result.exit_code == 1);
  CHECK(result.err.find("policy_lr=0.001_seed=1: ") != std::string::npos);
  CHECK(result.err.find("not a run folder") != std::string::npos);
  CHECK(fs::exists(path + "/policy_lr=0.001_seed=2/summary.json"));
}

TEST_CASE("sweep: a mistake in one config, or another sweep in the folder, is refused before the first run") {
  const TempFolder folder;
  const std::string path = folder / "sweep";
  const CommandResult mistake = run_troupe(sweep_of(path, "[1e-3, -1]"));
  CHECK(mistake.exit_code == 2);
  CHECK(mistake.err.find("trainer.policy_lr") != std::string::npos);
  CHECK(!fs::exists(path));
  fs::create_directories(path);
  const auto lock = posix_disk().lock(path + "/sweep.lock");
  const CommandResult second = run_troupe(sweep_of(path, "[1e-3]"));
  CHECK(second.exit_code == 2);
  CHECK(second.err.find("is using this folder") != std::string::npos);
}

TEST_CASE("runs: finds runs one level deeper, ranks them by a setting, and lists those with a tag") {
  REQUIRE(swept().first.exit_code == 0);
  const std::string above = fs::path(swept().path).parent_path();
  const CommandResult ranked = run_troupe({"runs", above, "--group", "trainer.policy_lr", "--json"});
  REQUIRE(ranked.exit_code == 0);
  const json groups = json::parse(ranked.out).at("groups");
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].at("runs").size() == 2);
  CHECK(groups[0].at("evaluation").at("mean") >= groups[1].at("evaluation").at("mean"));
  CHECK(run_troupe({"runs", above, "--tag", "rates"}).exit_code == 0);
  CHECK(run_troupe({"runs", above, "--tag", "rate"}).err ==
        "troupe: --tag: rate: no run has this tag, did you mean rates?\n");
}

TEST_CASE("train: keeps what the run is called and how it was started, and --name names its folder") {
  REQUIRE(swept().first.exit_code == 0);
  const std::string run = swept().path + "/policy_lr=0.001_seed=1";
  const json about = json::parse(read(run + "/about.json"));
  CHECK(about.at("tags") == json{"rates"});
  const json start = about.at("starts").at(0);
  CHECK(start.at("command").get<std::string>().find("--seed 1") != std::string::npos);
  CHECK(!start.at("host").get<std::string>().empty());
  REQUIRE(run_troupe({"train", run, "--name", "the first", "--tag", "good"}).exit_code == 0);
  const json after = json::parse(read(run + "/about.json"));
  CHECK(after.at("name") == "the first");
  CHECK(after.at("tags") == json{"good", "rates"});
}

TEST_CASE("export --csv: several runs are one table with their settings, and an error names the file that was given") {
  REQUIRE(swept().first.exit_code == 0);
  const CommandResult table = run_troupe({"export", swept().path, "--csv", "-"});
  CHECK(table.exit_code == 0);
  CHECK(table.out.starts_with("run,name,tags,state,config."));
  CHECK(table.out.substr(0, table.out.find("\r\n")).find("config.trainer.policy_lr") != std::string::npos);
  const std::string file = swept().folder / "plain";
  std::ofstream(file) << "no folder";
  CHECK(run_troupe({"export", swept().path, "--csv", file + "/a.csv"}).err ==
        "troupe: --csv: " + file + "/a.csv: cannot be written: Not a directory\n");
}

TEST_CASE("plot: groups with one evaluation each stand beside each other") {
  REQUIRE(swept().first.exit_code == 0);
  const CommandResult plot = run_troupe({"plot", swept().path, "--y", "eval.return_mean"});
  CHECK(plot.exit_code == 0);
  CHECK(plot.out.starts_with("eval.return_mean over trainer.policy_lr\n"));
  CHECK(run_troupe({"plot", swept().path, "--y", "return_mean"}).err.find("did you mean ") != std::string::npos);
}
