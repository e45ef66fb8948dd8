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

}  // namespace

std::vector<std::string> interval_notes(const PlotPanel& panel) {
  size_t fewest = SIZE_MAX;
  for (const GroupCurve& curve : panel.curves)
    if (curve.runs > 1) fewest = std::min(fewest, curve.runs);
  if (fewest == SIZE_MAX) return {};
  std::vector<std::string> notes = {"interquartile mean of runs, 95 % bootstrap interval"};
  if (fewest < kFirmRuns) notes.emplace_back("rough: fewer than 5 runs");
  return notes;
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
  PlotRange range{INFINITY, -INFINITY, INFINITY, -INFINITY};
  for (const GroupCurve& curve : panel.curves) {
    range.left = std::min(range.left, curve.x.front());
    range.right = std::max(range.right, curve.x.back());
    range.bottom = std::min(range.bottom, std::ranges::min(curve.mean));
    range.top = std::max(range.top, std::ranges::max(curve.mean));
    if (curve.x.size() > 1) continue;
    range.bottom = std::min(range.bottom, curve.low.front());
    range.top = std::max(range.top, curve.high.front());
  }
  if (panel.categories) {
    range.left = -0.5;
    range.right = static_cast<double>(panel.curves.size()) - 0.5;
  }
  if (range.left == range.right) range.right += 1;
  if (range.bottom == range.top) range.top += 1;
  return range;
}

std::vector<double> ticks_between(double low, double high, int count) {
  const double raw = (high - low) / count, size = std::pow(10.0, std::floor(std::log10(raw)));
  double distance = 10 * size;
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * size >= raw * (1 - 1e-9)) {
      distance = factor * size;
      break;
    }
  constexpr double kExact = 0x1p53;
  if (!(std::abs(low / distance) < kExact && std::abs(high / distance) < kExact)) return {};
  const auto first = static_cast<int64_t>(std::ceil(low / distance - 1e-9));
  const auto last = static_cast<int64_t>(std::floor(high / distance + 1e-9));
  std::vector<double> ticks;
  for (int64_t i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * distance);
  return ticks;
}

std::string tick_text(double tick, double distance) {
  constexpr double kExact = 0x1p53;
  const bool small = std::abs(tick) < (distance >= 1000 ? 1000 : 10'000);
  if (distance >= 1 && (small || std::abs(tick) >= 100 * distance)) return format_number(tick, 0);
  if (distance >= 1 && std::abs(tick) < kExact)
    return (tick < 0 ? "-" : "") + format_compact(static_cast<uint64_t>(std::llround(std::abs(tick))));
  if (distance >= 1e-6 && std::abs(tick) < kExact)
    return format_number(tick, static_cast<int>(std::ceil(-std::log10(distance) - 1e-9)));
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", tick);
  return text;
}

}  // namespace troupe
