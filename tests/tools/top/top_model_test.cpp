// What `troupe top` makes of the messages of a run, and its curves.
#include "tools/top/model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <memory>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/text_format.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tools/top/figures.h"
#include "tools/top/run_files.h"

using namespace troupe;
using nlohmann::json;

namespace {

std::string hello(const std::string& run, uint64_t started, uint64_t seed = 1) {
  return json{{"type", "hello"}, {"run", run}, {"started", started}, {"config", {{"seed", seed}}}}.dump();
}

std::string stats(uint64_t sequence, uint64_t env_steps, double return_mean) {
  StatsSnapshot s;
  s.env_steps = env_steps;
  s.return_mean = return_mean;
  return json{{"type", "stats"}, {"sequence", sequence}, {"stats", json::parse(to_json(s))}}.dump();
}

// A reply to a request for history with these environment steps and returns.
std::string history(const std::vector<std::array<double, 3>>& points) {
  json list = json::array();
  for (const auto& [sequence, env_steps, value] : points) {
    std::vector<json> values(curve_paths().size());
    values[0] = env_steps;
    values[1] = value;
    list.push_back({static_cast<uint64_t>(sequence), values});
  }
  return json{{"type", "history"}, {"available", points.size()}, {"points", list}}.dump();
}

struct Reading {
  TopModel model;
  TopReader reader{model};
  std::string receive(const std::string& line) { return reader.received(line, "12:00:00"); }
  std::vector<double> returns(size_t bins) const { return model.history.curve("episodes.return_mean", bins); }
};

}  // namespace

TEST_CASE("top: a greeting is answered with a request for the curves, and older ones follow until the first") {
  Reading run;
  run.reader.begin();
  const json request = json::parse(run.receive(hello("a", 1)));
  CHECK(request["type"] == "history");
  CHECK(request["topics"][0] == "env_steps");
  CHECK(json::parse(run.receive(history({{7, 30, 3}, {8, 40, 4}})))["before"] == 7);
  CHECK_FALSE(run.reader.has_history());
  CHECK(run.receive(history({{1, 10, 1}, {6, 20, 2}})) == "");
  CHECK(run.reader.has_history());
  CHECK(run.returns(4) == std::vector<double>{1, 2, 3, 4});
}

TEST_CASE("top: a snapshot becomes the newest, and a point of the curves once") {
  Reading run;
  run.receive(hello("a", 1));
  run.receive(stats(3, 100, 1.5));
  run.receive(history({{3, 100, 1.5}}));
  CHECK(run.model.newest->env_steps == 100);
  CHECK(run.model.history.size() == 1);
  CHECK(run.reader.snapshots() == 1);
}

TEST_CASE("top: what is no message of a run is refused") {
  for (const char* line : {"", "HTTP/1.1 400 Bad Request", "null", "[]", R"({"type":"stats","stats":{}})",
                           R"({"type":"hello","config":3})", R"({"type":"error","reason":"no"})"}) {
    Reading run;
    CHECK_THROWS_AS(run.receive(line), ConfigError);
  }
}

TEST_CASE("top: messages with unexpected parts do no harm") {
  Reading run;
  run.receive(hello("a", 1));
  for (const char* line :
       {R"({"type":"history"})", R"({"type":"history","points":[1,[],["a",[]],[2,3],[4,[null,"x",{}]]]})",
        R"({"type":"stats","stats":null})", R"({"type":"stats","stats":{"lag":7,"alarms":"x"}})", R"({"type":"new"})"})
    CHECK_NOTHROW(run.receive(line));
}

TEST_CASE("top: the points that a run had made after the checkpoint of its new start are forgotten") {
  Reading run;
  run.receive(hello("a", 1));
  run.receive(history({{1, 10, 1}, {2, 20, 2}, {3, 30, 3}}));
  run.reader.begin();
  run.receive(hello("a", 2));
  CHECK(run.model.events.front().text == "the run was started again");
  run.receive(stats(1, 20, 7));
  CHECK(run.model.history.size() == 2);
  CHECK(run.returns(2) == std::vector<double>{1, 7});
}

TEST_CASE("top: the first points of a run that resumes are kept, after those that were read in its folder") {
  const test::TempFolder folder;
  std::ofstream(folder / "config.json") << R"({"name": "a", "seed": 1})";
  std::ofstream records(folder / "metrics.jsonl");
  for (const uint64_t env_steps : {10, 20, 30}) {
    StatsSnapshot s;
    s.env_steps = env_steps;
    s.return_mean = static_cast<double>(env_steps);
    records << to_json(s) << '\n';
  }
  records.close();
  Reading run;
  read_record(run.model, folder.path());
  run.reader.begin();
  run.receive(hello("a", 2));
  run.receive(history({{1, 40, 4}, {2, 50, 5}}));
  CHECK(run.model.history.size() == 5);
  CHECK(run.returns(5) == std::vector<double>{10, 20, 30, 4, 5});
  CHECK(run.model.events.front().text == "the run is live");
}

TEST_CASE("top: another run at the same address begins anew") {
  Reading run;
  run.receive(hello("a", 1));
  run.receive(stats(1, 10, 1));
  run.receive(hello("a", 2, /*seed=*/2));
  CHECK(run.model.history.size() == 0);
  CHECK_FALSE(run.model.newest);
  CHECK(run.model.events.front().text == "another run is served here");
}

TEST_CASE("top: a run that reports seldom may be silent for longer") {
  TopModel model;
  model.describe("a", R"({"stats": {"interval_ms": 2000}})");
  CHECK(model.most_silent == 10);
  model.describe("a", R"({"stats": {"interval_ms": 60000}})");
  CHECK(model.most_silent == 180);
}

TEST_CASE("top: changes between two snapshots are events") {
  TopModel model;
  StatsSnapshot s;
  s.told_bottleneck = Bottleneck{"sampling", "", "", ""};
  model.show(s, "1");
  CHECK(model.events.empty());
  s.workers_up = 2;
  s.alarms["kl_high"] = {AlarmLevel::error, 3, "it is high"};
  s.told_bottleneck->what = "training";
  s.evaluation = EvaluationResult{.updates = 7, .episodes = 4, .return_mean = 2};
  model.show(s, "2");
  std::string texts;
  for (const TopEvent& event : model.events) texts += event.text + '\n';
  CHECK(
      texts ==
      "bottleneck: training\nalarm kl_high (error): it is high\nevaluation at update 7: return 2.000 +- -, success -\n"
      "workers up: 0 -> 2\n");
  s.alarms.clear();
  s.training_ended = true;
  model.show(s, "3");
  CHECK(model.events[0].text == "training has ended");
  CHECK(model.events[1].text == "alarm kl_high is over");
}

TEST_CASE("top: a curve is the mean of its points in equal parts of the steps, and goes on where there are none") {
  TopHistory points;
  const auto add = [&](uint64_t sequence, double env_steps, double value) { points.add(sequence, {env_steps, value}); };
  add(1, 0, kUnknown);
  add(2, 30, 1);
  add(3, 40, 3);
  add(4, 100, 8);
  const std::vector<double> curve = points.curve("episodes.return_mean", 4);
  REQUIRE(curve.size() == 4);
  CHECK(std::isnan(curve[0]));
  CHECK(curve[1] == 2);
  CHECK(curve[2] == 2);
  CHECK(curve[3] == 8);
  CHECK(points.curve("learner.kl", 4).empty());
  CHECK(points.curve("no.such", 4).empty());
}

TEST_CASE("top: of very many points those of the older half are thinned out") {
  TopHistory points;
  for (uint64_t i = 1; i <= 3 * TopHistory::kMostPoints; ++i) points.add(i, {static_cast<double>(i), 1});
  CHECK(points.size() <= TopHistory::kMostPoints);
  CHECK(points.oldest() == 1);
}

TEST_CASE("top: bars reach from the smallest value to the largest, also over several lines") {
  const std::vector<double> values = {0, 7, kUnknown, 3};
  CHECK(bars_of(values, 1, false) == std::vector<std::string>{"\u2581\u2588 \u2584"});
  CHECK(bars_of(std::vector<double>{0, 15}, 2, true) == std::vector<std::string>{" #", "_#"});
  CHECK(display_width(bars_of(std::vector<double>{5, 5, 5}, 1, false)[0]) == 3);
  CHECK(bars_of(std::vector<double>{5, 5}, 1, false)[0] == "\u2585\u2585");
  CHECK(bars_of(std::vector<double>{0, 0}, 1, false)[0] == "\u2581\u2581");  // nothing is no height
  CHECK_NOTHROW(bars_of(std::vector<double>{-1e308, 1e308}, 1, false));
}

TEST_CASE("top: every path that has a curve is in the tables of figures") {
  for (const std::string& path : curve_paths()) {
    CAPTURE(path);
    CHECK_FALSE(unit_of(path).empty());
  }
  CHECK(label_of("learner.explained_variance", kStepWords) == "explained variance");
  CHECK(figure_text(0.63, "0 to 1") == "63 %");
  CHECK(figure_text(3723, "s") == "1:02:03");
  CHECK(figure_text(kUnknown, "s") == "-");
  // One form of large numbers, whether they have a fraction or not.
  CHECK(figure_text(7344, "env steps/s") == "7,344");
  CHECK(figure_text(7343.6, "env steps/s") == "7,344");
  CHECK(figure_text(-1234.5, "rewards") == "-1,235");
  CHECK(figure_text(0.25, "env steps/s") == "0.2500");
}

TEST_CASE("top: of a run that has ended, the newest record is shown, and the evaluation that ended after it") {
  const test::TempFolder folder;
  const auto line = [](uint64_t env_steps, uint64_t updates) {
    StatsSnapshot s;
    s.env_steps = env_steps;
    s.updates = updates;
    return s;
  };
  StatsSnapshot evaluated = line(200, 2);
  evaluated.evaluation = EvaluationResult{.updates = 2, .episodes = 4, .return_mean = 7};
  std::ofstream(folder / "metrics.jsonl") << to_json(line(100, 1)) << '\n'
                                          << to_json(line(400, 4)) << '\n'
                                          << "damaged\n"
                                          << to_json(evaluated) << '\n';
  TopModel model;
  read_record(model, folder.path());
  REQUIRE(model.newest);
  CHECK(model.newest->env_steps == 400);
  REQUIRE(model.newest->evaluation);
  CHECK(model.newest->evaluation->return_mean == 7);
  CHECK(model.history.size() == 3);
}

TEST_CASE("top: the records of a run give its last verdict, all its alarms, and its events at the time of the run") {
  const test::TempFolder folder;
  StatsSnapshot s;
  s.elapsed_seconds = 65;
  s.updates = 1;
  s.told_bottleneck = Bottleneck{"training", "it is busy", "", ""};
  s.alarms["kl_high"] = {AlarmLevel::error, 1, "it is high"};
  std::ofstream records(folder / "metrics.jsonl");
  records << to_json(s) << '\n';
  s.updates = 2;
  s.alarms.clear();
  s.training_ended = true;
  s.told_bottleneck = Bottleneck{};
  records << to_json(s) << '\n';
  records.close();
  TopModel model;
  read_record(model, folder.path());
  REQUIRE(model.verdict);
  CHECK(model.verdict->what == "training");
  CHECK(model.raised.at("kl_high").level == AlarmLevel::error);
  CHECK(model.events.back().text == "alarm kl_high (error): it is high");
  CHECK(std::ranges::any_of(model.events, [](const TopEvent& event) { return event.text == "alarm kl_high is over"; }));
  CHECK(model.events.front().text == "training has ended");
  CHECK(model.events.front().time == "1:05");
  CHECK(model.longest.empty());
  std::ofstream(folder / "summary.json") << R"({"last_start":{"bottleneck":{"what":"waste","share":0.85}}})";
  read_record(model, folder.path());
  CHECK(model.longest == "waste 85 % of the time");
  std::ofstream(folder / "summary.json")
      << R"({"last_start":{"bottleneck":{"what":"waste","share":0.85,"why":"some is","advice":"less"}}})";
  read_record(model, folder.path());
  CHECK(model.longest == "waste 85 % of the time: some is; less");
}

TEST_CASE("top: alarms.json names those that the records do not have, and those that stand") {
  const test::TempFolder folder;
  StatsSnapshot s;
  s.alarms["ess_low"] = {AlarmLevel::warning, 1, "it is low"};
  std::ofstream(folder / "metrics.jsonl") << to_json(s) << '\n';
  std::ofstream(folder / "alarms.json") << R"({"alarms": [{"alarm": "ess_low", "level": "warning", "standing": false},
      {"alarm": "kl_high", "level": "error", "text": "it is high", "since_update": 4, "standing": true}]})";
  TopModel model;
  read_record(model, folder.path());
  CHECK(model.raised.size() == 2);
  REQUIRE(model.newest->alarms.size() == 1);
  const Alarm& standing = model.newest->alarms.at("kl_high");
  CHECK(standing.level == AlarmLevel::error);
  CHECK(standing.text == "it is high");
  CHECK(standing.since_update == 4);
}

TEST_CASE("top: the folder of a run that cannot be reached says what troupe runs says") {
  const test::TempFolder folder;
  const auto write = [&](const char* name, const char* text) { std::ofstream(folder / name) << text; };
  write("config.json", "{}");
  const auto state = [&] { return folder_state(folder.path()); };
  CHECK(state().link == Link::ended);
  CHECK(state().note == "the run ended before it wrote a summary");
  write("summary.json", R"({"reason": "stop.updates reached"})");
  CHECK(state().note == "the run ended: stop.updates reached");
  write("summary.json", R"({"reason": "failed", "error": "no worker is left"})");
  CHECK(state().note == "the run ended: no worker is left");
  write("endpoints.json", R"({"stats": "127.0.0.1:1"})");
  CHECK(state().link == Link::killed);
  CHECK(state().note == "the run was killed");
  const std::unique_ptr<FileLock> lock = posix_disk().lock(folder / "run.lock");
  CHECK(state().link == Link::unserved);
}
