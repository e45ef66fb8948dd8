#include "tools/cli/exported_metrics.h"

#include <string>
#include <string_view>

#include "models/learning/metrics.h"

namespace troupe {

namespace {

constexpr std::string_view kLag = "_lag_", kWithLag = " with lag ";

// "kl_lag_3" as "kl_by_lag{lag=3}": the lags of a figure are one metric with a label. Other names as they are.
std::string labelled(const std::string& name) {
  const size_t at = name.rfind(kLag);
  const bool of_lag = at != std::string::npos && name.find_first_not_of("0123456789", at + kLag.size()) == name.npos;
  return of_lag ? name.substr(0, at) + "_by_lag{lag=" + name.substr(at + kLag.size()) + '}' : name;
}

// The meaning without the lag.
std::string family_help(std::string_view meaning) {
  return std::string(meaning.substr(0, meaning.find(kWithLag))) + ", by their policy lag in updates";
}

}  // namespace

std::vector<ExportedMetric> exported_metrics() {
  std::vector<ExportedMetric> result = exported_snapshot_fields();
  for (const Metric& metric : metric_table()) {
    const std::string name(metric.name);
    result.push_back(exported_metric("learner." + name, "learner_" + labelled(name), metric.unit, metric.meaning));
    if (!result.back().label.empty()) result.back().help = family_help(metric.meaning);
  }
  return result;
}

}  // namespace troupe
