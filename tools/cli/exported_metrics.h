#pragma once
// What GET /metrics of a run contains. Plain function; any thread.

#include <vector>

#include "runtime/stats/prometheus.h"

namespace troupe {

// The metrics of snapshots and of updates.
std::vector<ExportedMetric> exported_metrics();

}  // namespace troupe
