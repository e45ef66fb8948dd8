#pragma once
// Figure: one row of the table of all figures of a run, of snapshots and of updates alike, as every view reads it.
// run_figures() (models/learning/run_figures.h) is the whole table. Plain values and functions; any thread.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/stats/figure_view.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

struct Figure {
  std::string group;                // the heading in docs/metrics.md
  std::string path;                 // in the JSON, with dots: "lag.p95", "learner.kl"
  std::string prometheus;           // as in SnapshotField
  std::string unit, when, meaning;  // as in SnapshotField
  FigureType type = FigureType::gauge;
  std::vector<std::string> labels;  // of a map: what its keys are; one name
  std::string label;                // a few words for people
  std::string token_label;          // the same in token runs
  Better better = Better::neither;
};

// The row of a figure, with the type and the labels that follow from the rest.
Figure make_figure(std::string_view group, std::string path, std::string_view prometheus, std::string_view unit,
                   std::string_view when, std::string_view meaning, const FigureView& view);
// Those of snapshot_fields(), without the object `learner`, whose entries have rows of their own.
std::vector<Figure> snapshot_figures();

// "counter", "gauge", ...; "up", "down", "neither".
std::string_view text_of(FigureType type);
std::string_view text_of(Better better);
// The table as JSON: a list of objects, for GET /figures.json and `troupe metrics --json`.
std::string figures_json(std::span<const Figure> figures);

// A number as text for people, with its unit where that does not follow from the label: "63 %", "1:02:03", "182 MB",
// "1,234", "0.25". "-" for unknown.
std::string figure_text(double value, std::string_view unit);
// The number of a snapshot at that path, so written. Throws InvariantError for a path that is not in the table.
std::string text_at(const StatsSnapshot& snapshot, std::string_view path);
// For figures like KL, whose small values matter too.
std::string small_figure(double value);

}  // namespace troupe
