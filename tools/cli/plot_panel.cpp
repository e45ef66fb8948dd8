#include "tools/cli/plot_panel.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "runtime/base/text_format.h"

namespace troupe {

PlotRange range_of(const PlotPanel& panel) {
  PlotRange range{INFINITY, -INFINITY, INFINITY, -INFINITY};
  for (const GroupCurve& curve : panel.curves) {
    range.left = std::min(range.left, curve.x.front());
    range.right = std::max(range.right, curve.x.back());
    range.bottom = std::min(range.bottom, std::ranges::min(curve.mean));
    range.top = std::max(range.top, std::ranges::max(curve.mean));
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
