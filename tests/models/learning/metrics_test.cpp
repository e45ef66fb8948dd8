// The table of metrics has, for each metric, when a learner reports it.
#include "models/learning/metrics.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "actors/config/run_config.h"
#include "tests/models/learning/batches.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// The names in the table, grouped by when they are reported; without those that only token runs have
// (answers/answer_reference_test.cpp, answers/answer_lag_test.cpp, answers/answer_cut_test.cpp).
std::map<std::string, std::set<std::string>> documented() {
  std::map<std::string, std::set<std::string>> result;
  for (const Metric& metric : metric_table()) {
    const bool of_correction = metric.when.ends_with("if `algorithm.rollout_correction` is set");
    if (metric.when == "if `reference.model` is set") continue;
    if (metric.when == "with such tokens") continue;  // lag_metrics_test.cpp
    if (metric.when.starts_with("in token runs") && !of_correction) continue;
    const bool always = metric.when.starts_with("with a value function");  // as the learners here
    const std::string when = of_correction ? "if `algorithm.rollout_correction` is set" : std::string(metric.when);
    result[always ? "always" : when].emplace(metric.name);
  }
  return result;
}

std::set<std::string> reported(const std::function<void(RunConfig&)>& change, const EnvSpec& spec = discrete_spec()) {
  RunConfig config = small_config();
  change(config);
  const auto policy = make_policy(config, spec);
  const auto learner = make_learner(config, spec);
  const UpdateReport report = update_with(*learner, whole_batch(random_rollout(spec, *policy, 8, 6, 1)));
  CHECK(report.steps > 0);
  std::set<std::string> names;
  for (const auto& [name, value] : report.metrics) names.insert(name);
  return names;
}

}  // namespace

TEST_CASE("metrics: a learner reports exactly the metrics of the table, each when the table says so") {
  const auto table = documented();
  const std::map<std::string, std::set<std::string>> seen = {
      {"always", reported([](RunConfig&) {})},
      {"with continuous actions", reported([](RunConfig&) {}, continuous_spec())},
      {"if `algorithm.kl_coef` is above 0", reported([](RunConfig& c) { c.algorithm.kl_coef = 0.1; })},
      {"if `algorithm.kl` is `full`", reported([](RunConfig& c) { c.algorithm.kl = "full"; })},
      {"if `algorithm.value_clip` is above 0", reported([](RunConfig& c) { c.algorithm.value_clip = 0.2; })},
      {"if `algorithm.surrogate` is `sapo`", reported([](RunConfig& c) { c.algorithm.surrogate = "sapo"; })},
      {"if `algorithm.rollout_correction` is set",
       reported([](RunConfig& c) { c.algorithm.rollout_correction = R"({"is": "token"})"; })},
  };
  REQUIRE(table.size() == seen.size());
  for (const auto& [when, names] : seen) {
    CAPTURE(when);
    REQUIRE(table.contains(when));
    std::set<std::string> wanted = table.at("always");
    wanted.insert(table.at(when).begin(), table.at(when).end());
    for (const std::string& name : wanted) CHECK_MESSAGE(names.contains(name), "not reported: ", name);
    for (const std::string& name : names) CHECK_MESSAGE(wanted.contains(name), "not in the table: ", name);
  }
}

TEST_CASE("metrics: every estimator and surrogate reports the same names") {
  const std::set<std::string> always = documented().at("always");
  for (const char* advantage : {"vtrace", "grpo", "rloo", "optimal_token_baseline"})
    CHECK_MESSAGE(reported([&](RunConfig& c) { c.algorithm.advantage = advantage; }) == always, advantage);
  for (const char* surrogate : {"gspo", "cispo", "geo_mean", "kl_cov", "none"})
    CHECK_MESSAGE(reported([&](RunConfig& c) { c.algorithm.surrogate = surrogate; }) == always, surrogate);
}

TEST_CASE("metrics: without a token that is not rejected there are no ratios, whose means and extremes would be 0") {
  const AlgorithmChoice choice = choose_algorithm(AlgorithmConfig());
  const UpdateSettings settings;
  const std::optional<TargetFigures> targets;
  EpochReport epoch;
  epoch.steps = 1;
  const auto names = [&] {
    return metrics_of({.choice = choice, .settings = settings, .epoch = epoch, .targets = targets});
  };
  for (const char* name : {"kl", "clip_fraction", "ess", "ratio_mean", "ratio_max", "ratio_min"})
    CHECK_MESSAGE(!names().contains(name), name);
  CHECK(names().contains("policy_loss"));
  epoch.loss.diagnostics.count = 1;
  CHECK(names().contains("ratio_min"));
}
