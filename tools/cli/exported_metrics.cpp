#include "tools/cli/exported_metrics.h"

#include <string>

#include "models/learning/metrics.h"

namespace troupe {

std::vector<ExportedMetric> exported_metrics() {
  std::vector<ExportedMetric> result = exported_snapshot_fields();
  for (const Metric& metric : metric_table()) {
    const std::string name(metric.name);
    result.push_back(exported_metric("learner." + name, "learner_" + name, metric.unit, metric.meaning));
  }
  return result;
}

}  // namespace troupe
