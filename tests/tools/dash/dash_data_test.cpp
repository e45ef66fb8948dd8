#include "tools/dash/dash_data.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using nlohmann::json;

namespace {

struct Served {
  test::TempFolder folder;
  std::string runs = folder / "runs";

  // A run that has ended, whose figures at step i are i times `factor`.
  void add(const std::string& name, int seed, double factor, int records = 10) const {
    const std::string path = runs + '/' + name;
    std::filesystem::create_directories(path);
    std::string lines;
    for (int i = 1; i <= records; ++i)
      lines += R"({"env_steps":)" + std::to_string(100 * i) + R"(,"updates":)" + std::to_string(i) +
               R"(,"elapsed_seconds":)" + std::to_string(i) + R"(,"episodes":{"return_mean":)" +
               std::to_string(factor * i) + "}}\n";
    posix_disk().write_atomic(path + "/config.json",
                              R"({"name":"cartpole","env":{"id":"cartpole"},"seed":)" + std::to_string(seed) + "}");
    posix_disk().write_atomic(path + "/metrics.jsonl", lines);
    posix_disk().write_atomic(path + "/summary.json", R"({"reason":"stop.updates","env_steps":1000})");
    posix_disk().write_atomic(path + "/log.txt", "first line\nlast line\n");
  }
  std::string run(const std::string& name) const { return "run=" + runs + '/' + name; }
};

json body(const HttpData& data) {
  CAPTURE(data.body);
  REQUIRE(data.status == "200 OK");
  return json::parse(data.body);
}

}  // namespace

TEST_CASE("query_values: names and values, decoded, in their order") {
  const QueryValues values = query_values("y=learner.kl&y=a%20b%2fc+d&run=&=x&z&w=%4");
  const QueryValues expected = {{"y", "learner.kl"}, {"y", "a b/c d"}, {"run", ""}, {"w", "%4"}};
  CHECK(values == expected);
  CHECK(query_values("").empty());
}

TEST_CASE("dash_data: the list has the runs with what differs, and a line for a folder that is none") {
  const Served served;
  served.add("a", 1, 1);
  served.add("b", 2, 2);
  std::filesystem::create_directories(served.runs + "/empty");
  DashData data({served.runs});
  const json reply = body(data.answer("/data/runs"));
  REQUIRE(reply["runs"].size() == 2);
  CHECK(reply["runs"][1]["run"] == served.runs + "/b");
  CHECK(reply["runs"][1]["state"] == "finished");
  CHECK(reply["runs"][1]["differs"]["seed"] == 2);
  CHECK(reply["runs"][1]["deleted"] == false);
  REQUIRE(reply["problems"].size() == 1);
  CHECK(reply["problems"][0] == served.runs + ": 1 folder has no run and is left out: empty");
}

TEST_CASE("dash_data: curves are the numbers of the file, and only asked for again when they have changed") {
  const Served served;
  served.add("a", 1, 2);
  DashData data({served.runs});
  const std::string target = "/data/curves?y=episodes.return_mean&" + served.run("a");
  const json reply = body(data.answer(target));
  CHECK(reply["x"]["env_steps"][9] == 1000);
  CHECK(reply["y"]["episodes.return_mean"]["mean"][9] == 20);
  CHECK_FALSE(reply["y"]["episodes.return_mean"].contains("low"));
  CHECK(reply["records"] == 10);
  const json again = body(data.answer(target + "&version=" + reply["version"].get<std::string>()));
  CHECK_FALSE(again.contains("x"));
  CHECK(again["version"] == reply["version"]);
}

TEST_CASE("dash_data: a group is the interquartile mean of its runs, which for three is their mean") {
  const Served served;
  for (int seed = 1; seed <= 3; ++seed) served.add("r" + std::to_string(seed), seed, seed);
  DashData data({served.runs});
  const json reply = body(data.answer("/data/group?x=env_steps&y=episodes.return_mean&" + served.run("r1") + '&' +
                                      served.run("r2") + '&' + served.run("r3")));
  REQUIRE(reply["groups"].size() == 1);
  const json& group = reply["groups"][0];
  CHECK(group["runs"] == 3);
  CHECK(group["x"].front() == 100);
  CHECK(group["mean"].front().get<double>() == doctest::Approx(2));
  CHECK(group["mean"].back().get<double>() == doctest::Approx(20));
  CHECK(group["low"].back().get<double>() >= 10);
  CHECK(group["high"].back().get<double>() <= 30);
}

TEST_CASE("dash_data: a group has one line about all runs without its figure, however many they are") {
  const Served served;
  std::string query = "/data/group?x=env_steps&y=learner.kl";
  for (const char* name : {"a", "b", "c", "d"}) {
    served.add(name, 1, 1);
    query += '&' + served.run(name);
  }
  DashData data({served.runs});
  const std::string path = served.runs + '/';
  CHECK(body(data.answer(query))["notes"] == json({"learner.kl: 4 of 4 runs have no record with it and env_steps: " +
                                                   path + "a, " + path + "b, " + path + "c, ..."}));
}

TEST_CASE("dash_data: the list has the speed, the bottleneck, the alarms and the names that users gave") {
  const Served served;
  served.add("a", 1, 1, 2);
  const std::string path = served.runs + "/a";
  const std::string record = R"({"env_steps":900,"updates":9,"elapsed_seconds":3,"env_steps_per_second":7,)"
                             R"("alarms":{"kl_high":1,"return_collapse":2}})";
  posix_disk().write_atomic(path + "/metrics.jsonl", posix_disk().read(path + "/metrics.jsonl") + record + "\n");
  posix_disk().write_atomic(path + "/about.json", R"({"name":"slow live","tags":["slow"],"note":"why","starts":[]})");
  posix_disk().write_atomic(path + "/summary.json",
                            R"({"reason":"stop.updates","last_start":{"bottleneck":{"what":"waste","share":0.5}}})");
  DashData data({served.runs});
  const json run = body(data.answer("/data/runs"))["runs"][0];
  CHECK(run["mean_env_steps_per_second"] == 400);  // from 100 steps at 1 s to 900 at 3 s
  CHECK(run["bottleneck"] == "waste 50 %");
  const json standing = {{"kl_high", "warning"}, {"return_collapse", "error"}};
  CHECK(run["alarms"] == json({{"errors", 1}, {"warnings", 1}, {"raised", standing}, {"standing", standing}}));
  const json opened = body(data.answer("/data/run?" + served.run("a")));
  CHECK(opened["name"] == "slow live");
  CHECK(opened["tags"] == json({"slow"}));
  CHECK(opened["note"] == "why");
  CHECK(opened["alarms"] == run["alarms"]);
}

TEST_CASE("dash_data: the alarms of a run are those of alarms.json, with those that stand") {
  const Served served;
  served.add("a", 1, 1);
  posix_disk().write_atomic(served.runs + "/a/alarms.json",
                            R"({"alarms": [{"alarm": "kl_high", "level": "warning", "standing": false},
                                           {"alarm": "ess_low", "level": "error", "standing": true}]})");
  DashData data({served.runs});
  const json alarms = body(data.answer("/data/runs"))["runs"][0]["alarms"];
  CHECK(alarms["raised"] == json({{"ess_low", "error"}, {"kl_high", "warning"}}));
  CHECK(alarms["standing"] == json({{"ess_low", "error"}}));
}

TEST_CASE("dash_data: the page of one run has its config, its newest record and the end of its log") {
  const Served served;
  served.add("a", 7, 1);
  DashData data({served.runs});
  const json reply = body(data.answer("/data/run?" + served.run("a")));
  CHECK(reply["config"]["seed"] == 7);
  CHECK(reply["defaults"].contains("seed"));
  CHECK(reply["stats"]["env_steps"] == 1000);
  CHECK(reply["log"] == json{"first line", "last line"});
}

TEST_CASE("dash_data: an evaluation that ended late is neither the newest record nor the last point of a curve") {
  const Served served;
  served.add("a", 1, 1);
  posix_disk()
      .open_append(served.runs + "/a/metrics.jsonl")
      ->append(R"({"env_steps":600,"updates":6,"elapsed_seconds":6,"eval":{"updates":6,"return_mean":9}})"
               "\n");
  DashData data({served.runs});
  const json newest = body(data.answer("/data/run?" + served.run("a")))["stats"];
  CHECK(newest["env_steps"] == 1000);
  CHECK(newest["eval"]["return_mean"] == 9);
  const json curves = body(data.answer("/data/curves?y=eval.return_mean&" + served.run("a")));
  CHECK(curves["x"]["env_steps"] == json{100, 200, 300, 400, 500, 600, 600, 700, 800, 900, 1000});
  CHECK(curves["y"]["eval.return_mean"]["mean"][6] == 9);
}

TEST_CASE("dash_data: a folder that is none of the runs is refused, also one that exists") {
  const Served served;
  served.add("a", 1, 1);
  DashData data({served.runs});
  const HttpData other = data.answer("/data/run?run=/etc");
  CHECK(other.status == "404 Not Found");
  CHECK(other.body == "run: \"/etc\" is none of the runs that are served");
  CHECK(data.answer("/data/run?" + served.run("a/../a")).status == "404 Not Found");
  CHECK(data.answer("/data/nothing").status == "404 Not Found");
}

TEST_CASE("dash_data: a request without figures or with a wrong axis is refused with its name and value") {
  const Served served;
  served.add("a", 1, 1);
  DashData data({served.runs});
  CHECK(data.answer("/data/curves?" + served.run("a")).body == "y: 0 figures, expected 1 to 100");
  const HttpData axis = data.answer("/data/group?x=days&y=lag.p95&" + served.run("a"));
  CHECK(axis.status == "400 Bad Request");
  CHECK(axis.body == "x: \"days\" is no axis, expected env_steps, updates or elapsed_seconds");
}

TEST_CASE("dash_data: a run without records says so, and has no curves") {
  const Served served;
  served.add("a", 1, 1);
  DashData data({served.runs});
  std::filesystem::remove(served.runs + "/a/metrics.jsonl");
  const json reply = body(data.answer("/data/curves?y=lag.p95&" + served.run("a")));
  CHECK(reply["problem"].get<std::string>().find("metrics.jsonl") != std::string::npos);
  CHECK(reply["points"] == 0);
}

TEST_CASE("run_list: a run that is deleted stays in the list, marked, with one line") {
  const Served served;
  served.add("a", 1, 1);
  served.add("b", 2, 1);
  RunList list({served.runs});
  const auto start = RunList::Clock::now();
  list.refresh(start);
  std::filesystem::remove_all(served.runs + "/a");
  list.refresh(start + std::chrono::milliseconds(999));
  CHECK_FALSE(list.runs()[0].deleted);  // once a second at most
  list.refresh(start + std::chrono::seconds(1));
  REQUIRE(list.runs().size() == 2);
  CHECK(list.runs()[0].deleted);
  CHECK_FALSE(list.runs()[1].deleted);
  REQUIRE(list.problems().size() == 1);
  CHECK(list.problems()[0].find("was deleted; what was read of it is still shown") != std::string::npos);
  served.add("a", 1, 1);
  list.refresh(start + std::chrono::seconds(2));
  CHECK_FALSE(list.runs()[0].deleted);
  CHECK(list.problems().empty());
}

TEST_CASE("run_list: a run that comes later is found, and a folder without any says so") {
  const Served served;
  std::filesystem::create_directories(served.runs);
  RunList list({served.runs + '/'});
  const auto start = RunList::Clock::now();
  list.refresh(start);
  CHECK(list.problems() == Words{served.runs + ": holds no runs yet"});
  served.add("a", 1, 1);
  list.refresh(start + std::chrono::seconds(1));
  REQUIRE(list.runs().size() == 1);
  CHECK(list.runs()[0].run.env_steps == 1000);
  CHECK(list.problems().empty());
}

TEST_CASE("run_list: a missing folder is refused") {
  const Served served;
  CHECK_THROWS_AS(RunList({served.runs}), ConfigError);
}
