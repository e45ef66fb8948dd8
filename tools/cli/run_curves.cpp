#include "tools/cli/run_curves.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "runtime/base/suggest.h"
#include "runtime/config/fixed_settings.h"
#include "runtime/run_folder/json_scan.h"
#include "runtime/stats/curve_statistics.h"
#include "tools/cli/flag_values.h"

namespace troupe {

namespace {

constexpr size_t kResamples = 2000;
constexpr uint64_t kResampleSeed = 0;

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
  const std::string near = closest(setting, paths);
  refuse_flag("--group",
              printable(setting) + ": no run has this setting" + (near.empty() ? "" : ", did you mean " + near + '?'));
}

// The label of each run, which is the same for runs of one group.
std::vector<std::string> labels_of(const std::vector<RunOverview>& runs, const std::string& setting) {
  std::vector<std::string> labels;
  if (!setting.empty()) {
    for (const RunOverview& run : runs) labels.push_back(setting + '=' + printable(setting_in(run.settings, setting)));
    return labels;
  }
  std::set<std::string> names;
  for (const RunOverview& run : runs) names.insert(run.name);
  const std::vector<SettingValues> differs = differences(runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string settings = settings_text(differs[i], {"seed"}), name = printable(runs[i].name);
    labels.push_back(settings.empty() ? name : names.size() == 1 ? settings : name + ' ' + settings);
  }
  return labels;
}

}  // namespace

RunCurve curve_of(std::span<const double> x, std::span<const double> y) {
  std::vector<size_t> order;
  for (size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(x[i]) && std::isfinite(y[i])) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return x[i]; });
  RunCurve curve;
  for (const size_t i : order) {
    if (!curve.x.empty() && curve.x.back() == x[i]) {
      curve.y.back() = y[i];
      continue;
    }
    curve.x.push_back(x[i]);
    curve.y.push_back(y[i]);
  }
  return curve;
}

double value_at(const RunCurve& curve, double x) {
  const auto above = static_cast<size_t>(std::ranges::lower_bound(curve.x, x) - curve.x.begin());
  if (above == curve.x.size()) return curve.y.back();
  if (above == 0 || curve.x[above] == x) return curve.y[above];
  const double share = (x - curve.x[above - 1]) / (curve.x[above] - curve.x[above - 1]);
  return curve.y[above - 1] + share * (curve.y[above] - curve.y[above - 1]);
}

GroupCurve group_curve(std::span<const RunCurve> curves, std::span<const size_t> task_of) {
  GroupCurve group;
  group.runs = curves.size();
  double first = -INFINITY, last = INFINITY;
  for (const RunCurve& curve : curves) {
    first = std::max(first, curve.x.empty() ? INFINITY : curve.x.front());
    last = std::min(last, curve.x.empty() ? -INFINITY : curve.x.back());
  }
  if (curves.empty() || last < first) return group;
  const Resamples resamples(task_of, curves.size() > 1 ? kResamples : 1, kResampleSeed);
  const size_t points = last > first ? kCurvePoints : 1;
  std::vector<double> values(curves.size());
  for (size_t i = 0; i < points; ++i) {
    const double share = points == 1 ? 0 : static_cast<double>(i) / static_cast<double>(points - 1);
    const double x = first + (last - first) * share;
    for (size_t run = 0; run < curves.size(); ++run) values[run] = value_at(curves[run], x);
    const BootstrapInterval interval = bootstrap_interval(values, resamples);
    group.x.push_back(x);
    group.mean.push_back(interquartile_mean(values));
    group.low.push_back(interval.low);
    group.high.push_back(interval.high);
  }
  return group;
}

std::vector<RunGroup> group_runs(const std::vector<RunOverview>& runs, const std::string& setting) {
  if (!setting.empty()) require_setting(runs, setting);
  const std::vector<std::string> labels = labels_of(runs, setting);
  std::vector<RunGroup> groups;
  std::map<std::string, size_t> group_of;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto [entry, is_new] = group_of.try_emplace(labels[i], groups.size());
    if (is_new) groups.push_back({labels[i], {}});
    groups[entry->second].runs.push_back(i);
  }
  return groups;
}

}  // namespace troupe
