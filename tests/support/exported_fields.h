#pragma once
// The metrics of snapshots alone, for tests that need no learner.

#include <vector>

#include "runtime/stats/prometheus.h"
#include "runtime/stats/snapshot_fields.h"

namespace troupe::test {

inline std::vector<ExportedMetric> exported_snapshot_fields() {
  std::vector<ExportedMetric> result;
  for (const SnapshotField& field : snapshot_fields())
    if (!field.prometheus.empty())
      result.push_back(exported_metric(field.path, field.prometheus, field.unit, field.meaning));
  return result;
}

}  // namespace troupe::test
