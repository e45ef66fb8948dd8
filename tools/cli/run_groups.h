#pragma once
// Runs that are compared as one, because they differ in little but their seed, and the figures of such groups. Plain
// functions; main thread.

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tools/cli/found_runs.h"

namespace troupe {

struct RunGroup {
  std::string label;
  Words values;              // of the settings that tell it from the others, as text
  std::vector<size_t> runs;  // their indices
  Words parts = {};          // of the label: "trainer.policy_lr=0.001"; the first is the name of the configs, or empty
};

// Groups runs with the same config but for `name` and `seed`; with `settings`, those with the same values of these
// settings. In the order of their values, setting by setting: numbers by size, others by their first runs. Throws
// ConfigError for a setting that no run has.
std::vector<RunGroup> group_runs(const std::vector<RunOverview>& runs, const Words& settings);

// The labels of these groups among themselves: without what all of them have in common, but never empty.
Words labels_among(std::span<const RunGroup* const> groups);

// "runs of one group differ also in trainer.gamma, model.hidden": the settings, without `name`, `seed` and `settings`,
// in which runs of the same group differ. Empty if there is none. `groups` are indices of runs.
std::string mixed_settings_text(const std::vector<RunOverview>& runs, std::span<const std::vector<size_t>> groups,
                                const Words& settings);

// Which task each of the runs has, as a number.
std::vector<size_t> tasks_of(const std::vector<RunOverview>& runs, const std::vector<size_t>& members);

// The interquartile mean of a figure over those runs of a group that have it, and the ends of its 95 % bootstrap
// interval: NaN without runs, and the interval with one run.
struct GroupFigure {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  size_t runs = 0;
  double mean = kNone, low = kNone, high = kNone;
};
// `values` are those of the runs, NaN where a run has none; `task_of` is the task of each.
GroupFigure group_figure(std::span<const double> values, std::span<const size_t> task_of);

// A group of the runs of one task.
struct RankedGroup {
  std::string task;
  RunGroup group;
  size_t finished = 0;  // runs that reached their limit
  GroupFigure evaluation, training, speed;
  bool tokens = false;  // its runs train on answers

  // What the group is ranked by; `evaluated` says whether one of its task has an evaluation.
  const GroupFigure& score(bool evaluated) const { return evaluated ? evaluation : training; }
};

// The groups of each task, the best first: those with the largest evaluation; where no run of a task has one, with the
// largest return of training episodes.
std::vector<RankedGroup> rank_groups(const std::vector<RunOverview>& runs, const Words& settings);

// Whether a group of this task has an evaluation.
bool is_evaluated(std::span<const RankedGroup> groups, const std::string& task);

}  // namespace troupe
