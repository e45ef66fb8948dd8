#pragma once
// The table of the figures in a StatsSnapshot: where each is in the JSON, its unit, when it has a value, and what it
// means. to_json() and snapshot_of() use this table, and docs/metrics.md is generated from it. Views read it as part of
// run_figures() (models/learning/run_figures.h). Plain functions; any thread.

#include <span>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runtime/stats/figure_view.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

// Reads a figure from a snapshot, as JSON, and writes it into one from such JSON. What has another type is as unknown.
struct FieldAccess {
  nlohmann::ordered_json (*get)(const StatsSnapshot&);
  void (*set)(StatsSnapshot&, const nlohmann::ordered_json&);
};

struct SnapshotField {
  std::string_view group;  // of fields that follow each other; the heading in docs/metrics.md
  std::string_view path;   // in the JSON, with dots: "lag.p95"
  // In GET /metrics, after "troupe_": "env_steps_total", "samples_total{state=trained}". With "{inference=*}" each
  // entry of the object is a sample, and its key the label. With "{le=*}" it is a histogram. Empty: not there.
  std::string_view prometheus;
  std::string_view unit;
  std::string_view when;  // it has a value; null otherwise
  std::string_view meaning;
  FieldAccess access;
  FigureView view = {};  // how views show it
};

// In the order of the JSON.
std::span<const SnapshotField> snapshot_fields();
// The row with that path. Throws InvariantError without one.
const SnapshotField& snapshot_field(std::string_view path);
// Puts the figures with these paths into a JSON object, at their paths. A path that ends with a dot, like "ledger.",
// stands for all that begin so. Throws InvariantError for a path that is in no row.
void put_figures(const StatsSnapshot& snapshot, std::span<const std::string_view> paths, nlohmann::ordered_json& into);
// Its last parts: workers, failures and alarms; the bottleneck; evaluations, the warm-up and prompts; answers of a
// language model; histograms.
std::span<const SnapshotField> worker_fields();
std::span<const SnapshotField> bottleneck_fields();
std::span<const SnapshotField> evaluation_fields();
std::span<const SnapshotField> answer_fields();
std::span<const SnapshotField> histogram_fields();
// Seconds of the stages of an update, of an environment step and of an answer, and the times of actors.
std::span<const SnapshotField> stage_fields();
// And after it: the tasks of episodes.
std::span<const SnapshotField> task_fields();

// `when` of fields that depend on the speed of the machine: forget_times() makes these null.
bool depends_on_time(const SnapshotField& field);

}  // namespace troupe
