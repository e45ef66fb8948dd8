#pragma once
// The figures of a snapshot by their path, as `troupe top` shows them: value, unit, label and text. All from the table
// of figures (models/learning/run_figures.h). Pure functions; any thread.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/stats/figure.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

// The numbers that have a curve, by their path ("lag.p95"): what the run learns, and how samples come and go.
std::span<const std::string_view> learning_curves();
std::span<const std::string_view> flow_curves();
// Both, after env_steps, which is what they are drawn over.
const std::vector<std::string>& curve_paths();

// The number at that path; kUnknown if the snapshot has none.
double figure_of(const StatsSnapshot& snapshot, std::string_view path);

// One figure as it is listed: "workers starting" and "2". An object has a line for each entry.
struct FigureText {
  std::string label;
  std::string text;
};
// All figures of the table's group, those that are unknown left out.
std::vector<FigureText> figures_of_group(const StatsSnapshot& snapshot, std::string_view group);
// The entries of the object at that path, by their names; none if the snapshot has none.
std::vector<FigureText> entries_at(const StatsSnapshot& snapshot, std::string_view path);
// The text at that path; empty if the snapshot has none.
std::string words_at(const StatsSnapshot& snapshot, std::string_view path);

// A share of a whole, with its name, the last part of its path.
struct FigureShare {
  std::string name, label;
  double share = kUnknown;
  std::string text;
};
// Of the actors' time, those that are known.
std::vector<FigureShare> busy_shares(const StatsSnapshot& snapshot);
// Of the samples produced, what happened to them; without those that are none.
std::vector<FigureShare> ledger_shares(const StatsSnapshot& snapshot);

// The label of the figure for runs with these words; of a path that is not in the table, its words.
std::string label_of(std::string_view path, const ExperienceWords& words);
std::string unit_of(std::string_view path);

}  // namespace troupe
