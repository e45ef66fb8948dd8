#include "tools/cli/plot_panel.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "runtime/base/text_format.h"
#include "runtime/stats/curve_statistics.h"

namespace troupe {

namespace {

// "trainer.policy_lr" where all labels are like "trainer.policy_lr=0.001"; empty elsewhere.
std::string common_setting(const PlotPanel& panel) {
  std::string common;
  for (const GroupCurve& curve : panel.curves) {
    const size_t equals = curve.label.find('=');
    if (equals == std::string::npos || curve.label.find('=', equals + 1) != std::string::npos) return "";
    const std::string setting = curve.label.substr(0, equals);
    if (!common.empty() && setting != common) return "";
    common = setting;
  }
  return common;
}

// The limits that are given in place of those of the curves. Then they differ, and are numbers.
void fix(const AxisScale& scale, double& low, double& high) {
  low = scale.low.value_or(std::isfinite(low) ? low : 1);
  high = scale.high.value_or(std::isfinite(high) ? high : 1);
  if (!(low < high)) (scale.high && !scale.low ? low : high) = scale.high && !scale.low ? high - 1 : low + 1;
  if (scale.log && low <= 0) low = high / 10;
}

}  // namespace

std::string interval_note(const PlotPanel& panel) {
  const bool joined = std::ranges::any_of(panel.curves, [](const GroupCurve& curve) { return curve.runs > 1; });
  return joined ? "interquartile mean of runs, 95 % bootstrap interval" : "";
}

std::string rough_note(const PlotPanel& panel) {
  const bool rough = std::ranges::any_of(
      panel.curves, [](const GroupCurve& curve) { return curve.runs > 1 && curve.runs < kFirmRuns; });
  return rough ? "rough: fewer than 5 runs" : "";
}

std::vector<std::string> category_names(const PlotPanel& panel) {
  const std::string setting = common_setting(panel);
  std::vector<std::string> names;
  for (const GroupCurve& curve : panel.curves)
    names.push_back(setting.empty() ? curve.label : curve.label.substr(setting.size() + 1));
  return names;
}

std::string category_axis(const PlotPanel& panel) {
  const std::string setting = common_setting(panel);
  return setting.empty() ? "groups" : setting;
}

PlotRange range_of(const PlotPanel& panel) {
  PlotRange range{INFINITY, -INFINITY, INFINITY, -INFINITY, panel.x.log, panel.y.log};
  const auto widen = [](double& low, double& high, double value, bool log) {
    if (log && value <= 0) return;
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const GroupCurve& curve : panel.curves) {
    for (const double x : curve.x) widen(range.left, range.right, x, range.log_x);
    for (const double mean : curve.mean) widen(range.bottom, range.top, mean, range.log_y);
    if (curve.x.size() > 1) continue;
    widen(range.bottom, range.top, curve.low.front(), range.log_y);
    widen(range.bottom, range.top, curve.high.front(), range.log_y);
  }
  if (panel.categories) {
    range.left = -0.5;
    range.right = static_cast<double>(panel.curves.size()) - 0.5;
  } else {
    fix(panel.x, range.left, range.right);
  }
  fix(panel.y, range.bottom, range.top);
  return range;
}

}  // namespace troupe
