// runs, plot and export --csv with a real run, and with folders made by hand.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

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

void write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

// Two seeds of CartPole and, made by hand: a run that was killed inside a line, a folder of something else, and a run
// with a config that is torn.
struct Runs {
  TempFolder folder;
  std::string path = folder / "runs";

  Runs() {
    for (const char* seed : {"1", "2"})
      REQUIRE(run_troupe({"train", "cartpole", "--run", path + "/seed" + seed, "--seed", seed, "--set",
                          "stop.updates=6", "--set", "stop.env_steps=0", "--set", "evaluation.episodes=5"})
                  .exit_code == 0);
    const std::string metrics = read(path + "/seed1/metrics.jsonl");
    write(path + "/killed/config.json", read(path + "/seed1/config.json"));
    write(path + "/killed/metrics.jsonl", metrics + metrics.substr(0, 200));
    write(path + "/killed/endpoints.json", "{}");
    write(path + "/notes/notes.txt", "no run");
    write(path + "/torn/config.json", "{\"name\": \"car");
  }
  json listed(Words more = {}) const {
    Words words{"runs", path, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = run_troupe(words);
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    return json::parse(result.out);
  }
};

const Runs& runs() {
  static const Runs made;
  return made;
}

json run_of(const json& listed, const std::string& name) {
  for (const json& run : listed.at("runs"))
    if (run.at("run").get<std::string>().ends_with('/' + name)) return run;
  FAIL("no run " << name);
  return {};
}

bool has_gnuplot() {
  std::istringstream folders(std::getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (fs::exists(folder + "/gnuplot")) return true;
  return false;
}

}  // namespace

TEST_CASE("runs: lists every run with the figures of its summary, and what is wrong with other folders") {
  const json listed = runs().listed();
  REQUIRE(listed.at("runs").size() == 3);
  REQUIRE(listed.at("problems").size() == 2);
  CHECK(listed["problems"][0].get<std::string>().starts_with(runs().path + "/torn/config.json:"));
  CHECK(listed["problems"][1] == runs().path + ": 1 folder has no run and is left out: notes");
  const json run = run_of(listed, "seed2"), summary = json::parse(read(runs().path + "/seed2/summary.json"));
  CHECK(run.at("state") == "finished");
  CHECK(run.at("reason") == summary.at("reason"));
  CHECK(run.at("task") == "CartPole-v1");
  for (const char* key : {"env_steps", "updates", "mean_env_steps_per_second"}) CHECK(run.at(key) == summary.at(key));
  CHECK(run.at("env_steps").is_number_unsigned());
  CHECK(run.at("score").at("of") == "evaluation");
  CHECK(run.at("score").at("return_mean") == summary.at("eval").at("return_mean"));
  CHECK(run.at("differs") == json{{"seed", 2}});
  CHECK(run.at("mean_env_steps_per_second").get<double>() > 0);
  CHECK_FALSE(run.contains("env_steps_per_second"));  // in metrics.jsonl that of the last 10 s
  CHECK(run.at("alarms").at("errors").is_number_unsigned());
}

TEST_CASE("runs: a run that was killed has crashed, with the figures of its last whole record") {
  const json run = run_of(runs().listed(), "killed"), seed1 = run_of(runs().listed(), "seed1");
  CHECK(run.at("state") == "crashed");
  CHECK(run.at("reason") == "killed");
  CHECK(run.at("env_steps") == seed1.at("env_steps"));
}

TEST_CASE("runs: the table has a line for each run, and the problems are on stderr") {
  const CommandResult result = run_troupe({"runs", runs().path});
  CHECK(result.exit_code == 0);
  CHECK(std::ranges::count(result.out, '\n') == 4);
  CHECK(result.out.find("seed=2") != std::string::npos);
  CHECK(result.out.find("finished") != std::string::npos);
  CHECK(std::ranges::count(result.err, '\n') == 2);
}

TEST_CASE("runs: are sorted by a figure, the largest first, or in reverse") {
  const auto order = [](const json& listed) {
    std::vector<double> steps;
    for (const json& run : listed.at("runs")) steps.push_back(run.at("env_steps"));
    return steps;
  };
  const std::vector<double> down = order(runs().listed({"--sort", "env_steps"}));
  CHECK(std::ranges::is_sorted(down, std::greater<>()));
  const std::vector<double> up = order(runs().listed({"--sort", "env_steps", "--reverse"}));
  CHECK(std::ranges::is_sorted(up));
  CHECK(runs().listed({"--sort", "episodes.return_mean"}).at("runs").size() == 3);
  const json by_kl = runs().listed({"--sort", "learner.kl"}).at("runs")[0];
  CHECK(by_kl.at("sorted_by").at("figure") == "learner.kl");
  CHECK(by_kl.at("sorted_by").at("value").is_number());
}

TEST_CASE("runs and plot: refuse mistakes with one line") {
  const std::string empty = runs().folder / "empty";
  fs::create_directories(empty);
  const auto error_of = [](Words words) {
    const CommandResult result = run_troupe(std::move(words));
    CHECK(result.exit_code == 2);
    CHECK(result.out == "");
    return result.err;
  };
  CHECK(error_of({"runs", empty}) ==
        "troupe: " + empty + ": holds no runs, expected a folder with those of `troupe train`\n");
  CHECK(error_of({"runs", empty + "/no"}).starts_with("troupe: " + empty + "/no: no such run folder"));
  CHECK(error_of({"runs", runs().path, "--sort", "lag.p96"}) ==
        "troupe: --sort: lag.p96 is no figure of a run, did you mean lag.p95?\n");
  CHECK(error_of({"runs", runs().path, "--sort", "learner.kl.any"})
            .starts_with("troupe: --sort: learner.kl.any is no figure of a run, "));
  CHECK(error_of({"plot", runs().path, "--y", "learner.kll"}) ==
        "troupe: --y: learner.kll is no figure of a run, did you mean learner.kl?\n");
  CHECK(error_of({"plot", runs().path, "--x", "steps"}) ==
        "troupe: --x: \"steps\" is no axis, expected env_steps, updates or seconds\n");
  CHECK(error_of({"plot", runs().path, "--log", "z"}) == "troupe: --log: \"z\" is no axis, expected x or y\n");
  CHECK(error_of({"plot", runs().path, "--log", "y", "--y-limits", "0..5"}) ==
        "troupe: --y-limits: a logarithmic axis begins above 0, not at 0.00\n");
  CHECK(error_of({"plot", runs().path, "--y-label", "a", "--y-label", "b"}) ==
        "troupe: --y-label: b is one label too many, there is 1 figure\n");
  CHECK(error_of({"plot", runs().path, "--y", "lag"}).starts_with("troupe: --y: lag"));
  CHECK(error_of({"plot", runs().path, "-o", "a.gif"}) ==
        "troupe: --output: \"a.gif\": expected a name that ends with .svg, .png or .pdf\n");
  CHECK(error_of({"export", runs().path + "/seed1"}) ==
        "troupe: export: expected exactly one of --hf DIR, --run DIR and --csv FILE\n");
  CHECK(error_of({"export", runs().path + "/seed1", "--csv", "-", "--merge"}) ==
        "troupe: export: --merge: has no effect with --csv; leave it out\n");
}

TEST_CASE("export --csv: a line for each record, on stdout and in a file, which only such a file may be replaced by") {
  const std::string run = runs().path + "/seed1", file = runs().folder / "seed1.csv";
  const CommandResult printed = run_troupe({"export", run, "--csv", "-"});
  CHECK(printed.exit_code == 0);
  const std::string metrics = read(run + "/metrics.jsonl");
  CHECK(std::ranges::count(printed.out, '\n') == std::ranges::count(metrics, '\n') + 1);
  for (int time = 0; time < 2; ++time) {
    CHECK(run_troupe({"export", run, "--csv", file}).exit_code == 0);
    CHECK(read(file) == printed.out);
  }
  write(file, "my notes\n");
  CHECK(run_troupe({"export", run, "--csv", file}).exit_code == 2);
  CHECK(read(file) == "my notes\n");
}

TEST_CASE("plot: seeds are one curve, whose last value is that of the records") {
  const CommandResult result = run_troupe({"plot", runs().path + "/seed1", runs().path + "/seed2"});
  CHECK(result.exit_code == 0);
  CHECK(std::ranges::count(result.out, '\n') == 24);
  CHECK(result.out.starts_with("episodes.return_mean over env steps\n"));
  CHECK(result.out.find("cartpole: 2 runs, at the end ") != std::string::npos);
  CHECK(run_troupe({"plot", runs().path, "--group", "seed", "--x", "seconds"}).out.find("seed=1: 2 runs") !=
        std::string::npos);
}

TEST_CASE("plot: a picture has the same bytes each time, and a file of another kind stays") {
  const std::string first = runs().folder / "first", second = runs().folder / "second";
  if (!has_gnuplot()) {
    const CommandResult refused = run_troupe({"plot", runs().path, "-o", first + ".svg"});
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find("apt-get install gnuplot-nox") != std::string::npos);
    return;
  }
  for (const char* ending : {".svg", ".png", ".pdf"}) {
    for (const std::string& file : {first, second})
      REQUIRE(run_troupe({"plot", runs().path, "--y", "episodes.return_mean", "--y", "learner.kl", "-o", file + ending})
                  .exit_code == 0);
    CHECK(read(first + ending).size() > 1000);
    CHECK(read(first + ending) == read(second + ending));
  }
  write(first + ".svg", "my notes\n");
  CHECK(run_troupe({"plot", runs().path, "-o", first + ".svg"}).exit_code == 2);
  CHECK(read(first + ".svg") == "my notes\n");
}
