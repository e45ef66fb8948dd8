#include "tools/cli/plot_axis.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <utility>

#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "tools/cli/flag_values.h"

namespace troupe {

namespace {

std::optional<double> finite_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// "1.5M": in the largest unit that needs at most 2 decimals for the distance; nothing where it has none.
std::optional<std::string> in_thousands(double tick, double distance) {
  constexpr std::pair<double, const char*> kUnits[] = {{1e18, "E"}, {1e15, "P"}, {1e12, "T"},
                                                       {1e9, "G"},  {1e6, "M"},  {1e3, "k"}};
  for (const auto& [unit, letter] : kUnits) {
    if (std::abs(tick) < unit) continue;
    const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(distance / unit) - 1e-9)));
    if (decimals > 2) continue;
    std::string text = format_number(tick / unit, decimals);
    if (decimals > 0) text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
    return text + letter;
  }
  return std::nullopt;
}

// The powers of 10 between the limits times each factor.
std::vector<double> log_ticks(double low, double high, std::span<const double> factors) {
  std::vector<double> ticks;
  for (double power = std::floor(std::log10(low)); power <= std::ceil(std::log10(high)); ++power)
    for (const double factor : factors)
      if (const double tick = factor * std::pow(10.0, power); tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9))
        ticks.push_back(tick);
  return ticks;
}

}  // namespace

AxisLimits parse_limits(std::string_view flag, const std::string& text) {
  const size_t dots = text.find("..");
  const auto low = dots == text.npos ? std::nullopt : finite_number(std::string_view(text).substr(0, dots));
  const auto high = dots == text.npos ? std::nullopt : finite_number(std::string_view(text).substr(dots + 2));
  if (!low || !high || !(*low < *high))
    refuse_flag(flag, '"' + printable(text, 200) + "\": expected two numbers, the smaller first, like 0..50000");
  return {*low, *high};
}

double share_of(double value, double low, double high, bool log) {
  if (!log) return (value - low) / (high - low);
  return value > 0 ? (std::log(value) - std::log(low)) / (std::log(high) - std::log(low)) : NAN;
}

double value_at_share(double share, double low, double high, bool log) {
  return log ? std::exp(std::log(low) + share * (std::log(high) - std::log(low))) : low + (high - low) * share;
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
  if (distance >= 1 && !small)
    if (const auto text = in_thousands(tick, distance)) return *text;
  if (distance >= 1) return format_number(tick, 0);
  if (distance >= 1e-6 && std::abs(tick) < kExact)
    return format_number(tick, static_cast<int>(std::ceil(-std::log10(distance) - 1e-9)));
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", tick);
  return text;
}

std::vector<AxisTick> axis_ticks(double low, double high, bool log, int count) {
  constexpr double kPowers[] = {1}, kMore[] = {1, 2, 5};
  std::vector<AxisTick> ticks;
  std::vector<double> values = log ? log_ticks(low, high, kPowers) : std::vector<double>();
  const size_t step = 1 + values.size() / static_cast<size_t>(2 * std::max(count, 1));
  if (values.size() < 3 && log) values = log_ticks(low, high, kMore);
  if (values.size() > 1) {
    for (size_t i = 0; i < values.size(); i += step) ticks.push_back({values[i], tick_text(values[i], values[i])});
    return ticks;
  }
  values = ticks_between(low, high, count);
  const double distance = values.size() > 1 ? values[1] - values[0] : high - low;
  for (const double value : values) ticks.push_back({value, tick_text(value, distance)});
  return ticks;
}

}  // namespace troupe
