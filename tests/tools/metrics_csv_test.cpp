#include "tools/cli/metrics_csv.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "runtime/base/memory_disk.h"
#include "tests/support/test.h"
#include "tools/cli/figure_names.h"

using namespace troupe;

namespace {

// Fields of a line without quotes.
std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line + ',');
  for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
  return cells;
}

std::vector<std::string> lines_in(const std::string& csv) {
  std::vector<std::string> lines;
  for (size_t begin = 0, end; (end = csv.find("\r\n", begin)) != csv.npos; begin = end + 2)
    lines.push_back(csv.substr(begin, end - begin));
  return lines;
}

std::vector<std::string> lines_of_csv(const std::string& metrics) {
  MemoryDisk disk;
  disk.write_atomic("run/metrics.jsonl", metrics);
  std::string csv;
  metrics_csv(disk, {}, {{"run", {}}}, [&](std::string_view part) { csv += part; });
  return lines_in(csv);
}

std::string cell(const std::vector<std::string>& lines, size_t line, const std::string& column) {
  const std::vector<std::string> names = split(lines.front());
  const auto found = std::ranges::find(names, column);
  REQUIRE(found != names.end());
  return split(lines.at(line)).at(static_cast<size_t>(found - names.begin()));
}

}  // namespace

TEST_CASE("metrics_csv: every figure is a column, also without a record") {
  CHECK(split(lines_of_csv("").front()) == figure_names());
}

TEST_CASE("metrics_csv: a line for each record, its numbers as the run wrote them, empty cells where there is none") {
  const auto lines = lines_of_csv(
      R"({"elapsed_seconds":1.0,"env_steps":10,"lag":{"p95":null},"training_ended":false,"learner":{},"eval":null})"
      "\n"
      R"({"elapsed_seconds":149641.09009819353,"env_steps":20,"lag":{"p95":2.0},"learner":{"kl":1e-5}})"
      "\n"
      R"({"elapsed_seconds":9,"env_st)");
  REQUIRE(lines.size() == 3);
  CHECK(cell(lines, 1, "elapsed_seconds") == "1.0");
  CHECK(cell(lines, 2, "elapsed_seconds") == "149641.09009819353");
  CHECK(cell(lines, 1, "lag.p95") == "");
  CHECK(cell(lines, 2, "lag.p95") == "2.0");
  CHECK(cell(lines, 1, "training_ended") == "false");
  CHECK(cell(lines, 2, "training_ended") == "");
  CHECK(cell(lines, 2, "learner.kl") == "1e-5");
  CHECK(lines.front().find("eval,") == std::string::npos);
}

TEST_CASE("metrics_csv: what a line that is no record has is not a column") {
  const auto lines = lines_of_csv(R"({"env_steps":10,"torn":)"
                                  "\n"
                                  R"({"torn_later":1,"lag":{"torn_below":2})"
                                  "\n"
                                  R"({"env_steps":20,"whole":3})");
  REQUIRE(lines.size() == 2);
  CHECK(lines.front().find("torn") == std::string::npos);
  CHECK(cell(lines, 1, "whole") == "3");
}

TEST_CASE("metrics_csv: a figure with entries has a column for each, and figures of other versions come last") {
  const auto lines = lines_of_csv(R"({"env_failures":{"CartPole-v1":3},"old_figure":7,"lag":{"older":1}})");
  CHECK(cell(lines, 1, "env_failures.CartPole-v1") == "3");
  CHECK(cell(lines, 1, "old_figure") == "7");
  CHECK(lines.front().ends_with(",old_figure,lag.older"));
  const std::vector<std::string> names = split(lines.front());
  CHECK(std::ranges::count(names, "env_failures") == 0);
}

TEST_CASE("metrics_csv: the record of an evaluation that ended late is before those of later steps") {
  const auto lines = lines_of_csv(R"({"env_steps":10,"updates":1,"eval":null})"
                                  "\n"
                                  R"({"env_steps":20,"updates":2,"eval":null})"
                                  "\n"
                                  R"({"env_steps":10,"updates":1,"eval":{"return_mean":7}})");
  REQUIRE(lines.size() == 4);
  CHECK(cell(lines, 1, "env_steps") == "10");
  CHECK(cell(lines, 1, "eval.return_mean") == "");
  CHECK(cell(lines, 2, "env_steps") == "10");
  CHECK(cell(lines, 2, "eval.return_mean") == "7");
  CHECK(cell(lines, 3, "env_steps") == "20");
}

TEST_CASE("metrics_csv: texts with commas, quotes and line breaks are quoted") {
  const auto lines = lines_of_csv(R"({"last_error":"no \"env\", sorry"})");
  CHECK(lines.at(1).find(R"("no ""env"", sorry")") != std::string::npos);
}

TEST_CASE(
    "metrics_csv: records that are not in order come in the order of records, those at one place as in the file") {
  std::string metrics;
  int number = 0;
  for (const int steps : {10, 30, 10, 20, 40, 35, 40})
    metrics += "{\"env_steps\":" + std::to_string(steps) + ",\"number\":" + std::to_string(number++) + "}\n";
  const auto lines = lines_of_csv(metrics);
  REQUIRE(lines.size() == 8);
  std::vector<std::string> numbers;
  for (size_t i = 1; i < lines.size(); ++i) numbers.push_back(cell(lines, i, "number"));
  CHECK(numbers == std::vector<std::string>{"0", "2", "3", "1", "5", "4", "6"});
}

TEST_CASE("metrics_csv: a text that a spreadsheet would compute has a quote before it, a number has none") {
  const auto lines = lines_of_csv(R"({"env_steps":-5,"last_error":"=1+1","note":"-1","plain":"a-b","=x":1})");
  CHECK(cell(lines, 1, "env_steps") == "-5");
  CHECK(cell(lines, 1, "last_error") == "'=1+1");
  CHECK(cell(lines, 1, "note") == "'-1");
  CHECK(cell(lines, 1, "plain") == "a-b");
  CHECK(cell(lines, 1, "'=x") == "1");
}

TEST_CASE("metrics_csv: of a key that a record has twice, the last value counts") {
  CHECK(cell(lines_of_csv(R"({"env_steps":1,"env_steps":2})"), 1, "env_steps") == "2");
}

TEST_CASE("metrics_csv: the text comes in parts, which are no larger for more records") {
  MemoryDisk disk;
  std::string record = "{\"env_steps\":1,\"last_error\":\"" + std::string(100'000, 'x') + "\"}\n", metrics;
  for (int i = 0; i < 50; ++i) metrics += record;
  disk.write_atomic("run/metrics.jsonl", metrics);
  size_t parts = 0, largest = 0, lines = 0;
  metrics_csv(disk, {}, {{"run", {}}}, [&](std::string_view part) {
    ++parts;
    largest = std::max(largest, part.size());
    lines += static_cast<size_t>(std::ranges::count(part, '\n'));
    CHECK(part.ends_with("\r\n"));
  });
  CHECK(lines == 51);
  CHECK(parts > 4);
  CHECK(largest < 2'000'000);
}

TEST_CASE("metrics_csv: a new key in every record is a column each, and lines are not held") {
  constexpr int kRecords = 3000;
  std::string metrics;
  for (int i = 0; i < kRecords; ++i)
    metrics += "{\"env_steps\":" + std::to_string(i) + ",\"env_failures\":{\"env" + std::to_string(i) + "\":7}}\n";
  MemoryDisk disk;
  disk.write_atomic("run/metrics.jsonl", metrics);
  size_t bytes = 0, largest = 0;
  std::string end;
  metrics_csv(disk, {}, {{"run", {}}}, [&](std::string_view part) {
    bytes += part.size();
    largest = std::max(largest, part.size());
    end = part.substr(part.size() - std::min<size_t>(part.size(), kRecords));
  });
  CHECK(bytes > 9'000'000);
  CHECK(largest < 2'000'000);
  CHECK(end.find(",7,") != end.npos);
}

TEST_CASE("runs_csv: the values of settings that a spreadsheet would compute have a quote before them") {
  MemoryDisk disk;
  std::vector<RunOverview> runs(2);
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].folder = i == 0 ? "=a" : "b";
    runs[i].config = std::string(R"({"format": 2, "x": )") + (i == 0 ? R"("@sum")" : "-1") + "}";
    runs[i].settings = settings_in(runs[i].config, "config");
    disk.write_atomic(runs[i].folder + "/metrics.jsonl", "{\"env_steps\":10}\n");
  }
  std::string csv;
  runs_csv(disk, runs, [&](std::string_view part) { csv += part; });
  const std::vector<std::string> lines = lines_in(csv);
  REQUIRE(lines.size() == 3);
  CHECK(lines[1].starts_with("'=a,,,crashed,'@sum,"));
  CHECK(lines[2].starts_with("b,,,crashed,-1,"));
}

TEST_CASE("runs_csv: one table of all runs, with the run and the settings that differ before the figures") {
  MemoryDisk disk;
  std::vector<RunOverview> runs(2);
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].folder = i == 0 ? "a" : "b";
    runs[i].name = runs[i].folder;
    runs[i].about.name = "slow " + runs[i].folder;
    runs[i].about.tags = {"paper", "slow"};
    runs[i].state = RunState::finished;
    runs[i].config = R"({"format": 2, "name": "x", "seed": )" + std::to_string(i) + R"(, "stop": {"updates": 5}})";
    runs[i].settings = settings_in(runs[i].config, "config");
  }
  disk.write_atomic("a/metrics.jsonl", "{\"env_steps\":10}\n{\"env_steps\":20}\n");
  disk.write_atomic("b/metrics.jsonl", "{\"env_steps\":30,\"other\":1}\n");
  std::string csv;
  runs_csv(disk, runs, [&](std::string_view part) { csv += part; });
  const std::vector<std::string> lines = lines_in(csv);
  REQUIRE(lines.size() == 4);
  CHECK(lines.front().starts_with("run,name,tags,state,config.seed," + figure_names().front()));
  CHECK(cell(lines, 2, "run") == "a");
  CHECK(lines[2].starts_with("a,slow a,\"paper,slow\",finished,0,"));
  CHECK(lines[2].find(",20,") != std::string::npos);
  CHECK(cell(lines, 3, "run") == "b");
  CHECK(lines[3].find(",30,") != std::string::npos);
  CHECK(lines[3].ends_with(",1"));
  CHECK(csv_output().begins(lines.front()));
}
