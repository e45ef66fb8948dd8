#include "tools/cli/run_groups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "runtime/config/fixed_settings.h"
#include "runtime/run_folder/json_scan.h"
#include "runtime/stats/curve_statistics.h"
#include "tools/cli/flag_values.h"

namespace troupe {

namespace {

constexpr size_t kShownValue = 200;  // bytes

std::string setting_in(const SettingValues& settings, const std::string& path) {
  const auto found = std::ranges::find(settings, path, &std::pair<std::string, std::string>::first);
  return found == settings.end() ? kNotSet : scalar_text(found->second);
}

void require_setting(const std::vector<RunOverview>& runs, const std::string& setting) {
  std::vector<std::string> paths;
  for (const RunOverview& run : runs)
    for (const auto& [path, value] : run.settings) {
      if (path == setting) return;
      paths.push_back(path);
    }
  std::ranges::sort(paths);
  paths.erase(std::ranges::unique(paths).begin(), paths.end());
  const std::string near = did_you_mean(setting, paths);
  refuse_flag("--group", printable(setting) + ": no run has this setting" + (near.empty() ? "" : ", " + near));
}

// The group of each run, with that run alone.
std::vector<RunGroup> groups_by(const std::vector<RunOverview>& runs, const Words& settings) {
  std::vector<RunGroup> groups;
  for (size_t i = 0; i < runs.size(); ++i) {
    RunGroup group{"", {}, {i}, {""}};
    for (const std::string& setting : settings) {
      const std::string value = printable(setting_in(runs[i].settings, setting), kShownValue);
      group.label += (group.label.empty() ? "" : " ") + setting + '=' + value;
      group.values.push_back(value);
      group.parts.push_back(setting + '=' + value);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

// The same without settings.
std::vector<RunGroup> groups_by_difference(const std::vector<RunOverview>& runs) {
  std::set<std::string> names;
  for (const RunOverview& run : runs) names.insert(run.name);
  const std::vector<SettingValues> differs = differences(runs);
  std::vector<RunGroup> groups;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string settings = settings_text(differs[i], {"seed"}), name = printable(runs[i].name);
    RunGroup group{settings.empty() ? name : names.size() == 1 ? settings : name + ' ' + settings, {name}, {i}, {name}};
    for (const auto& [path, value] : differs[i]) {
      if (path == "seed") continue;
      group.values.push_back(scalar_text(value));
      group.parts.push_back(settings_text({{path, value}}));
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

// The order of the groups by one of their values: numbers by size, others by when they come up first.
std::map<std::string, double> order_of_values(const std::vector<RunGroup>& groups, size_t column) {
  std::map<std::string, double> order;
  bool numbers = true;
  for (const RunGroup& group : groups) {
    if (column >= group.values.size()) continue;
    order.try_emplace(group.values[column], static_cast<double>(order.size()));
    numbers = numbers && scalar_number(group.values[column]).has_value();
  }
  if (numbers)
    for (auto& [value, place] : order) place = *scalar_number(value);
  return order;
}

void sort_groups(std::vector<RunGroup>& groups) {
  std::vector<std::map<std::string, double>> orders;
  for (const RunGroup& group : groups)
    while (orders.size() < group.values.size()) orders.push_back(order_of_values(groups, orders.size()));
  std::ranges::stable_sort(groups, {}, [&](const RunGroup& group) {
    std::vector<double> places;
    for (size_t i = 0; i < group.values.size(); ++i) places.push_back(orders[i].at(group.values[i]));
    return places;
  });
}

// The largest first, what is not known last.
bool is_better(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a > b; }

RankedGroup ranked(const std::vector<RunOverview>& runs, const RunGroup& group) {
  RankedGroup result{runs[group.runs.front()].task, group, 0, {}, {}, {}, runs[group.runs.front()].tokens};
  std::vector<double> evaluations, returns, speeds;
  for (const size_t i : group.runs) {
    const RunOverview& run = runs[i];
    result.finished += run.state == RunState::finished;
    evaluations.push_back(run.score && run.score->evaluation ? run.score->mean : RunOverview::kNone);
    returns.push_back(run.trained ? run.trained->mean : RunOverview::kNone);
    speeds.push_back(run.mean_speed);
  }
  const std::vector<size_t> tasks(group.runs.size(), 0);
  result.evaluation = group_figure(evaluations, tasks);
  result.training = group_figure(returns, tasks);
  result.speed = group_figure(speeds, tasks);
  return result;
}

}  // namespace

std::vector<RunGroup> group_runs(const std::vector<RunOverview>& runs, const Words& settings) {
  for (const std::string& setting : settings) require_setting(runs, setting);
  std::vector<RunGroup> groups;
  std::map<std::string, size_t> group_of;
  for (RunGroup& each : settings.empty() ? groups_by_difference(runs) : groups_by(runs, settings)) {
    const auto [entry, is_new] = group_of.try_emplace(each.label, groups.size());
    if (is_new)
      groups.push_back(std::move(each));
    else
      groups[entry->second].runs.push_back(each.runs.front());
  }
  sort_groups(groups);
  return groups;
}

Words labels_among(std::span<const RunGroup* const> groups) {
  std::map<std::string, size_t> shared;  // part -> number of groups
  for (const RunGroup* group : groups)
    for (const std::string& part : std::set<std::string>(group->parts.begin(), group->parts.end())) ++shared[part];
  Words labels;
  for (const RunGroup* group : groups) {
    std::string label;
    for (const std::string& part : group->parts)
      if (!part.empty() && shared.at(part) < groups.size()) label += (label.empty() ? "" : " ") + part;
    const bool named = !group->parts.empty() && !group->parts.front().empty();
    labels.push_back(!label.empty() ? label : named ? group->parts.front() : group->label);
  }
  return labels;
}

std::string mixed_settings_text(const std::vector<RunOverview>& runs, std::span<const std::vector<size_t>> groups,
                                const Words& settings) {
  constexpr size_t kNamed = 5;
  Words mixed;
  for (const std::vector<size_t>& group : groups) {
    std::vector<RunOverview> members;
    for (const size_t i : group) members.push_back(runs[i]);
    for (RunOverview& each : members) each.name.clear();  // settings are compared within runs of one name
    if (members.size() < 2) continue;
    const std::vector<SettingValues> differs = differences(members);
    for (const auto& [path, value] : differs.front())
      if (path != "seed" && std::ranges::count(settings, path) == 0 && std::ranges::count(mixed, path) == 0)
        mixed.push_back(path);
  }
  if (mixed.empty()) return "";
  std::string text = "runs of one group differ also in ";
  for (size_t i = 0; i < std::min(mixed.size(), kNamed); ++i) text += (i == 0 ? "" : ", ") + printable(mixed[i]);
  return mixed.size() <= kNamed ? text : text + " and " + format_counted(mixed.size() - kNamed, "other");
}

std::vector<size_t> tasks_of(const std::vector<RunOverview>& runs, const std::vector<size_t>& members) {
  std::map<std::string, size_t> numbers;
  std::vector<size_t> tasks;
  for (const size_t i : members) tasks.push_back(numbers.try_emplace(runs[i].task, numbers.size()).first->second);
  return tasks;
}

GroupFigure group_figure(std::span<const double> values, std::span<const size_t> task_of) {
  std::vector<double> known;
  std::vector<size_t> tasks;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    known.push_back(values[i]);
    tasks.push_back(task_of[i]);
  }
  GroupFigure figure;
  figure.runs = known.size();
  if (known.empty()) return figure;
  figure.mean = interquartile_mean(known);
  if (known.size() == 1) return figure;
  const BootstrapInterval interval = bootstrap_interval(known, Resamples(tasks, kResamples, kResampleSeed));
  figure.low = interval.low;
  figure.high = interval.high;
  return figure;
}

std::vector<RankedGroup> rank_groups(const std::vector<RunOverview>& runs, const Words& settings) {
  std::vector<RankedGroup> groups;
  for (const RunGroup& group : group_runs(runs, settings)) {
    std::map<std::string, RunGroup> by_task;
    for (const size_t i : group.runs) {
      RunGroup& part =
          by_task.try_emplace(runs[i].task, RunGroup{group.label, group.values, {}, group.parts}).first->second;
      part.runs.push_back(i);
    }
    for (const auto& [task, part] : by_task) groups.push_back(ranked(runs, part));
  }
  std::map<std::string, bool> evaluated;
  for (const RankedGroup& each : groups) evaluated[each.task] = is_evaluated(groups, each.task);
  std::ranges::stable_sort(groups, [&](const RankedGroup& a, const RankedGroup& b) {
    if (a.task != b.task) return a.task < b.task;
    return is_better(a.score(evaluated[a.task]).mean, b.score(evaluated[a.task]).mean);
  });
  return groups;
}

bool is_evaluated(std::span<const RankedGroup> groups, const std::string& task) {
  return std::ranges::any_of(groups,
                             [&](const RankedGroup& each) { return each.task == task && each.evaluation.runs > 0; });
}

}  // namespace troupe
