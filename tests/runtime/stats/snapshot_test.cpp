#include <cmath>

#include <nlohmann/json.hpp>

#include "runtime/base/rng.h"
#include "tests/runtime/stats/console_figures.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

using nlohmann::json;

TEST_CASE("stats_snapshot: an empty snapshot is one line of valid JSON, with null for unknown values") {
  const std::string text = to_json(StatsSnapshot{});
  CHECK(text.find('\n') == std::string::npos);
  const json value = json::parse(text);
  CHECK(value["env_steps"] == 0);
  CHECK(value["progress"].is_null());
  CHECK(value["lag"]["p95"].is_null());
  CHECK(value["eval"].is_null());
  CHECK(value["learner"] == json::object());
}

TEST_CASE("stats_snapshot: the JSON is valid with non-finite figures and names that are not UTF-8") {
  StatsSnapshot s = running();
  s.learner["value_loss"] = INFINITY;
  s.env_failures["\xff"] = 2;
  s.evaluation = EvaluationResult{3, 4, 5, 6, 7, kUnknown, 0.5};
  const json value = json::parse(to_json(s));
  CHECK(value["env_steps_per_second"] == 103'512.4);
  CHECK(value["ledger"]["lost_in_crash"] == 64);
  CHECK(value["learner"]["value_loss"].is_null());
  CHECK(value["weights_behind"]["10.0.0.2:4000"] == 1);
  CHECK(value["eval"] == json::parse(to_json(*s.evaluation)));
  CHECK(s.ledger.balances());
}

// With all that may be absent, and with numbers and names of all kinds.
StatsSnapshot everything() {
  StatsSnapshot s = running();
  s.evaluation = EvaluationResult{.updates = 3, .return_mean = 1e-7, .pass_at = {{1, 0.5}, {8, 1}}};
  s.evaluating.emplace();
  s.warmup.emplace();
  s.verifier.emplace();
  s.prompts.emplace();
  s.histograms.lag.add(2, 7);
  s.ledger.produced = UINT64_MAX;
  s.weights_behind = {{"a \"b\"\\\n\xc3\xa9", 1}, {"\xff", 2}};
  s.env_failures["\xff"] = 2;
  const double some[] = {0,    -0.0, 1,     -1,    0.1,    1e-4,    9.99e-5,   1e14,   1e15,
                         1e16, 1e22, 1e100, 1e-30, 5e-324, 100'000, 0.1 + 0.2, 1.7e308};
  for (const double value : some) s.learner["some " + std::to_string(s.learner.size())] = value;
  return s;
}

TEST_CASE("stats_snapshot: the text is that of the library that reads it") {
  for (const StatsSnapshot& s : {StatsSnapshot{}, running(), everything()}) {
    const std::string text = to_json(s);
    CHECK(text == nlohmann::ordered_json::parse(text).dump());
  }
}

TEST_CASE("stats_snapshot: numbers are read as they were") {
  StatsSnapshot s;
  Rng rng(1);
  for (int i = 0; i < 1000; ++i)
    s.learner[std::to_string(i)] = rng.uniform_double() * std::pow(10.0, static_cast<int>(rng.next_u32() % 40) - 20);
  const json tree = json::parse(to_json(s));
  for (const auto& [name, value] : s.learner) CHECK(tree["learner"][name] == value);
}

TEST_CASE("stats_snapshot: a line has the finite numbers by their paths") {
  for (const StatsSnapshot& s : {StatsSnapshot{}, everything()}) {
    const SnapshotLine line = line_of(s);
    CHECK(line.json == to_json(s));
    CHECK(line.scalars == scalars_of(line.json));
  }
  CHECK(line_of(everything()).scalars.contains("env_failures/\xef\xbf\xbd"));
  const SnapshotLine line = line_of(running());
  const std::map<std::string, double>& scalars = line.scalars;
  CHECK(scalars.at("lag/p95") == 1);
  CHECK(scalars.at("learner/kl") == 0.0123);
  CHECK(scalars.count("episodes/success_rate") == 0);
  CHECK(scalars.count("eval/return_mean") == 0);
}
