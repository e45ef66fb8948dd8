// The metrics that a run exports for Prometheus.

#include "tools/cli/exported_metrics.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/learning/lag_classes.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

const ExportedMetric& exported(const std::vector<ExportedMetric>& all, const std::string& path) {
  const auto found = std::ranges::find(all, path, &ExportedMetric::path);
  REQUIRE(found != all.end());
  return *found;
}

}  // namespace

TEST_CASE("exported metrics: a figure of the updates has its name, and its lags are one metric with a label") {
  const auto all = exported_metrics();
  constexpr std::string_view kLearner = "learner.";
  for (const ExportedMetric& metric : all)
    if (metric.path.starts_with(kLearner) && metric.label.empty())
      CHECK(metric.name == "troupe_learner_" + metric.path.substr(kLearner.size()));
  CHECK(exported(all, "learner.kl").label.empty());
  CHECK(exported(all, "learner.rollout_lag_max").label.empty());
  std::set<std::string> labels, helps;
  for (size_t lag = 0; lag < kLagClasses; ++lag) {
    const ExportedMetric& metric = exported(all, "learner.kl_lag_" + std::to_string(lag));
    CHECK(metric.name == "troupe_learner_kl_by_lag");
    CHECK(metric.label == "lag");
    labels.insert(metric.label_value);
    helps.insert(metric.help);
  }
  CHECK(labels.size() == kLagClasses);
  CHECK(helps == std::set<std::string>{"kl of tokens, by their policy lag in updates"});
}

TEST_CASE("exported metrics: no name ends as those that Prometheus makes of a histogram") {
  for (const ExportedMetric& metric : exported_metrics())
    for (const char* ending : {"_count", "_sum", "_bucket"}) CHECK_MESSAGE(!metric.name.ends_with(ending), metric.name);
}

TEST_CASE("exported metrics: figures of the updates with one name follow each other, as the format demands") {
  std::set<std::string> ended;
  std::string name;
  for (const ExportedMetric& metric : exported_metrics()) {
    if (metric.name == name || !metric.name.starts_with("troupe_learner_")) continue;
    CHECK_MESSAGE(ended.insert(metric.name).second, metric.name);
    name = metric.name;
  }
}
