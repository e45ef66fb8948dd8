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

TEST_CASE("stats_snapshot: scalars_of gives the finite numbers by their paths") {
  const auto scalars = scalars_of(running());
  CHECK(scalars.at("lag/p95") == 1);
  CHECK(scalars.at("learner/kl") == 0.0123);
  CHECK(scalars.count("episodes/success_rate") == 0);
  CHECK(scalars.count("eval/return_mean") == 0);
}
