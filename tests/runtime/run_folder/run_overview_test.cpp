#include "runtime/run_folder/run_overview.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// A folder with the files of a run, made by hand.
struct Folder {
  TempFolder temporary;
  std::string path = temporary.path();

  Folder() { write("config.json", R"({"format": 2, "name": "cart", "seed": 1, "env": {"id": "CartPole-v1"}})"); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path + '/' + name) << text; }
  RunOverview overview(const HeldLocks& held = {}) const { return read_overview(posix_disk(), path, held); }
};

constexpr const char* kRecord =
    R"({"env_steps":500,"updates":5,"elapsed_seconds":2.5,"env_steps_per_second_60s":200.0,)"
    R"("episodes":{"return_mean":21.0,"return_std":3.0},"eval":null})"
    "\n";

std::string summary(const std::string& reason, const std::string& more = "") {
  return R"({"env": "CartPole-v1", "reason": ")" + reason +
         R"(", "env_steps": 900, "updates": 9, "wall_seconds": 4.5,)" + more +
         R"( "env_steps_per_second": 300.0, "eval": {"return_mean": 40.0, "return_std": 2.0, "updates": 9}})";
}

RunOverview with_settings(const std::string& name, const std::string& config) {
  RunOverview run;
  run.name = name;
  run.config = config;
  run.settings = settings_in(config, "config");
  return run;
}

std::string unchanged(const std::string& config) { return config; }

}  // namespace

TEST_CASE("read_overview: a run that reached its limit is finished, with the figures of its summary") {
  const Folder folder;
  folder.write("summary.json", summary("stop.env_steps reached"));
  folder.write("metrics.jsonl", kRecord);
  const RunOverview run = folder.overview();
  CHECK(run.name == "cart");
  CHECK(run.task == "CartPole-v1");
  CHECK(run.state == RunState::finished);
  CHECK(run.reason == "stop.env_steps reached");
  CHECK(run.env_steps == 900);
  CHECK(run.seconds == 4.5);
  CHECK(run.env_steps_per_second == 300);
  REQUIRE(run.score);
  CHECK(run.score->evaluation);
  CHECK(run.score->mean == 40);
  CHECK(run.last.at("env_steps") == 500);
}

TEST_CASE("read_overview: the speed of a summary is its mean, which older versions call env_steps_per_second") {
  const Folder folder;
  folder.write("metrics.jsonl", kRecord);
  folder.write("summary.json", summary("stop.env_steps reached", R"("mean_env_steps_per_second": 250.0,)"));
  CHECK(folder.overview().env_steps_per_second == 250);
  folder.write("summary.json", summary("stop.env_steps reached"));
  CHECK(folder.overview().env_steps_per_second == 300);
}

TEST_CASE("read_overview: a signal has stopped a run, an error is a crash") {
  const Folder folder;
  folder.write("summary.json", summary("interrupted"));
  CHECK(folder.overview().state == RunState::stopped);
  folder.write("summary.json", summary("failed", R"("error": "no worker is left",)"));
  CHECK(folder.overview().state == RunState::crashed);
  CHECK(folder.overview().reason == "no worker is left");
}

TEST_CASE(
    "read_overview: endpoints.json without a process is a start that was killed, whatever an older summary says") {
  const Folder folder;
  folder.write("summary.json", summary("stop.env_steps reached"));
  folder.write("metrics.jsonl", kRecord + std::string(R"({"env_steps":600,"upd)"));
  folder.write("endpoints.json", "{}");
  const RunOverview run = folder.overview();
  CHECK(run.state == RunState::crashed);
  CHECK(run.reason == "killed");
  CHECK(run.env_steps == 500);
  CHECK(run.env_steps_per_second == 200);
  CHECK_FALSE(run.score->evaluation);
  CHECK(run.score->mean == 21);
}

TEST_CASE("read_overview: a run is running while the process of run.lock holds that file") {
  const Folder folder;
  folder.write("endpoints.json", "{}");
  const std::unique_ptr<FileLock> lock = posix_disk().lock(folder.path + "/run.lock");
  CHECK(folder.overview(held_locks()).state == RunState::running);
  CHECK(folder.overview().state == RunState::crashed);
}

TEST_CASE("read_overview: a run that has not begun has no figures") {
  const Folder folder;
  const RunOverview run = folder.overview();
  CHECK(run.state == RunState::crashed);
  CHECK(run.reason == "ended before it wrote a summary");
  CHECK(std::isnan(run.env_steps));
  CHECK_FALSE(run.score);
}

TEST_CASE("read_overview: the newest evaluation in the records counts while there is no summary") {
  const Folder folder;
  folder.write("metrics.jsonl",
               R"({"env_steps":100,"updates":1,"eval":{"updates":1,"return_mean":30.0,"return_std":1.0}})"
               "\n" +
                   std::string(kRecord));
  const RunOverview run = folder.overview();
  CHECK(run.score->evaluation);
  CHECK(run.score->mean == 30);
  CHECK(run.env_steps == 500);
}

TEST_CASE("read_overview: the verdict is that of the last start of a run that has ended") {
  const Folder folder;
  const auto ended_with = [&](const std::string& last_start) {
    folder.write("summary.json", summary("interrupted", R"("last_start": )" + last_start + ','));
    return folder.overview();
  };
  const std::string verdict = R"({"bottleneck": {"what": "few environments", "share": 0.3}})";
  CHECK(ended_with(verdict).verdict == "few environments");
  CHECK(ended_with(verdict).verdict_share == 0.3);
  CHECK(std::isnan(ended_with(R"({"bottleneck": {"what": "x", "share": null}})").verdict_share));
  for (const char* none : {"{}", "null", "[]", R"({"bottleneck": null})", R"({"bottleneck": {"share": 0.3}})"})
    CHECK(ended_with(none).verdict == "");
  folder.write("endpoints.json", "{}");
  CHECK(ended_with(verdict).verdict == "");
}

TEST_CASE("read_overview: a damaged summary is named, and the records tell the rest") {
  const Folder folder;
  folder.write("metrics.jsonl", kRecord);
  for (const char* damaged : {R"({"reason": "stop.up)", "", "[1, 2]"}) {
    CAPTURE(damaged);
    folder.write("summary.json", damaged);
    const RunOverview run = folder.overview();
    REQUIRE(run.damaged.size() == 1);
    CHECK(run.damaged[0].starts_with(folder.path + "/summary.json"));
    CHECK(run.damaged[0].find("state, score and speed are from the other files") != std::string::npos);
    CHECK(run.state == RunState::crashed);
    CHECK(run.reason == "summary.json is damaged");
    CHECK(run.env_steps_per_second == 200);
    CHECK(run.score->mean == 21);
  }
}

TEST_CASE("read_overview: a damaged about.json is named, and everything else is there") {
  const Folder folder;
  folder.write("summary.json", summary("stop.env_steps reached"));
  folder.write("about.json", R"({"name": "bes)");
  const RunOverview run = folder.overview();
  REQUIRE(run.damaged.size() == 1);
  CHECK(run.damaged[0].starts_with(folder.path + "/about.json"));
  CHECK(run.about.name == "");
  CHECK(run.state == RunState::finished);
  CHECK(run.env_steps == 900);
}

TEST_CASE("read_overview: missing files are not damaged") {
  const Folder folder;
  CHECK(folder.overview().damaged.empty());
  folder.write("summary.json", summary("interrupted"));
  folder.write("about.json", R"({"name": "best"})");
  CHECK(folder.overview().damaged.empty());
}

TEST_CASE("read_state: what an overview says of the end") {
  const Folder folder;
  const auto state = [&] { return read_state(posix_disk(), folder.path, {}); };
  CHECK(state().reason == "ended before it wrote a summary");
  folder.write("summary.json", summary("interrupted"));
  CHECK(state().state == RunState::stopped);
  folder.write("endpoints.json", "{}");
  CHECK(state().reason == "killed");
  CHECK(state().reason == folder.overview().reason);
}

TEST_CASE("read_overview: a folder without a config, and a config that is not JSON, are errors with the path") {
  const Folder folder;
  folder.write("config.json", "{\"name\": ");
  CHECK_THROWS_AS(folder.overview(), ConfigError);
  std::filesystem::remove(folder.path + "/config.json");
  try {
    folder.overview();
    FAIL("no error");
  } catch (const ConfigError& error) {
    CHECK(error.what() == folder.path + ": is not the folder of a run, it has no config.json");
  }
}

TEST_CASE("settings_in: a path and a value for each setting, in the order of the file") {
  CHECK(settings_in(R"({"b": {"y": [1, 2], "x": {}}, "a": "t"})", "c") ==
        SettingValues{{"b.y", "[1,2]"}, {"b.x", "{}"}, {"a", "\"t\""}});
}

TEST_CASE("differing_settings: what is not the same in all runs of a name, without the name") {
  const std::vector<RunOverview> runs = {with_settings("a", R"({"name": "a", "seed": 1, "lr": 0.1})"),
                                         with_settings("a", R"({"name": "a", "seed": 2, "lr": 0.1})"),
                                         with_settings("b", R"({"name": "b", "seed": 7, "lr": 0.5})")};
  const std::vector<SettingValues> differs = differing_settings(runs, unchanged);
  CHECK(differs[0] == SettingValues{{"seed", "1"}});
  CHECK(differs[1] == SettingValues{{"seed", "2"}});
  CHECK(differs[2].empty());
}

TEST_CASE("differing_settings: a config of an older version is completed before it is compared") {
  const std::vector<RunOverview> runs = {with_settings("a", R"({"seed": 1, "new": 5})"),
                                         with_settings("a", R"({"seed": 1})")};
  const auto with_default = [](const std::string& config) {
    return config.find("new") == config.npos ? std::string(R"({"seed": 1, "new": 5})") : config;
  };
  CHECK(differing_settings(runs, with_default)[1].empty());
  CHECK(differing_settings(runs, unchanged)[1] == SettingValues{{"new", "not set"}});
}
