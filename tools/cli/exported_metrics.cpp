#include "tools/cli/exported_metrics.h"

#include <string>
#include <string_view>

#include "models/learning/run_figures.h"

namespace troupe {

namespace {

constexpr std::string_view kLearner = "learner.", kWithLag = " with lag ";

// The meaning without the lag.
std::string family_help(std::string_view meaning) {
  return std::string(meaning.substr(0, meaning.find(kWithLag))) + ", by their policy lag in updates";
}

}  // namespace

std::vector<ExportedMetric> exported_metrics() {
  std::vector<ExportedMetric> result;
  for (const Figure& figure : run_figures()) {
    if (figure.prometheus.empty()) continue;
    result.push_back(exported_metric(figure.path, figure.prometheus, figure.unit, figure.meaning));
    if (figure.path.starts_with(kLearner) && !result.back().label.empty())
      result.back().help = family_help(figure.meaning);
  }
  return result;
}

}  // namespace troupe
