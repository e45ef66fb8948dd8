#pragma once
// The newest snapshot in the text format of Prometheus (version 0.0.4) or of OpenMetrics 1.0, for GET /metrics. Plain
// functions; any thread.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace troupe {

// One figure of a snapshot, as Prometheus sees it.
struct ExportedMetric {
  std::string path;         // in the snapshot's JSON, one entry for each level
  std::string name;         // "troupe_env_steps_total"; a counter if it ends with "_total", else a gauge or a histogram
  std::string label;        // name of its label; empty = none; "le": the figure is a histogram
  std::string label_value;  // "*": the figure is an object whose keys are the values of the label
  std::string help;         // of all figures with this name
  std::string meaning;      // of this figure
  double scale = 1;         // from the figure's unit to the base unit
  bool seconds = false;     // it is a time
};

// `name` as in SnapshotField::prometheus. Throws InternalError for a name that the format does not allow.
ExportedMetric exported_metric(std::string_view path, std::string_view name, std::string_view unit,
                               std::string_view help);

// Figures that are null or absent are left out. `metrics` with the same name follow each other.
std::string prometheus_text(const nlohmann::json& snapshot, std::span<const ExportedMetric> metrics, bool open_metrics);

}  // namespace troupe
