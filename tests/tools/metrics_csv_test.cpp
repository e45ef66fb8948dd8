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

std::vector<std::string> lines_of_csv(const std::string& metrics) {
  MemoryDisk disk;
  disk.write_atomic("run/metrics.jsonl", metrics);
  std::vector<std::string> lines;
  const std::string csv = metrics_csv(disk, {}, {{"run", {}}});
  for (size_t begin = 0, end; (end = csv.find("\r\n", begin)) != csv.npos; begin = end + 2)
    lines.push_back(csv.substr(begin, end - begin));
  return lines;
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

TEST_CASE("runs_csv: one table of all runs, with the run and the settings that differ before the figures") {
  MemoryDisk disk;
  std::vector<RunOverview> runs(2);
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].folder = i == 0 ? "a" : "b";
    runs[i].name = runs[i].folder;
    runs[i].config = R"({"format": 2, "name": "x", "seed": )" + std::to_string(i) + R"(, "stop": {"updates": 5}})";
    runs[i].settings = settings_in(runs[i].config, "config");
  }
  disk.write_atomic("a/metrics.jsonl", "{\"env_steps\":10}\n{\"env_steps\":20}\n");
  disk.write_atomic("b/metrics.jsonl", "{\"env_steps\":30,\"other\":1}\n");
  const std::string csv = runs_csv(disk, runs);
  std::vector<std::string> lines;
  for (size_t begin = 0, end; (end = csv.find("\r\n", begin)) != csv.npos; begin = end + 2)
    lines.push_back(csv.substr(begin, end - begin));
  REQUIRE(lines.size() == 4);
  CHECK(lines.front().starts_with("run,config.seed," + figure_names().front()));
  CHECK(cell(lines, 2, "run") == "a");
  CHECK(cell(lines, 2, "config.seed") == "0");
  CHECK(cell(lines, 2, "env_steps") == "20");
  CHECK(cell(lines, 3, "run") == "b");
  CHECK(cell(lines, 3, "env_steps") == "30");
  CHECK(cell(lines, 3, "other") == "1");
  CHECK(csv_output().begins(lines.front()));
}
