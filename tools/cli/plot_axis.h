#pragma once
// The axes of plots: their limits, their ticks, and where a value is between the limits. Pure; any thread.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct AxisScale {
  bool log = false;
  std::optional<double> low, high;  // in place of those of the curves
};

// Reads "0..50000" into the limits, for a flag. Throws ConfigError.
struct AxisLimits {
  double low, high;
};
AxisLimits parse_limits(std::string_view flag, const std::string& text);

// How far a value is from the lower limit (0) to the upper one (1). With `log`, NaN for one that is not above 0.
double share_of(double value, double low, double high, bool log);
// The value there.
double value_at_share(double share, double low, double high, bool log);

// Round numbers between the limits, about `count` of them.
std::vector<double> ticks_between(double low, double high, int count);
// "250k" or "-0.05": a tick as text, with as many decimals as the distance between ticks needs.
std::string tick_text(double tick, double distance);

struct AxisTick {
  double value;
  std::string text;
};
// The ticks of an axis: with `log` powers of 10, and where there are few of them 2 and 5 times these.
std::vector<AxisTick> axis_ticks(double low, double high, bool log, int count);

}  // namespace troupe
