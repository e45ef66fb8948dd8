#pragma once
// Times and medians of repeated measurements. Pure functions but for the clock; any thread.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

namespace troupe {

using BenchClock = std::chrono::steady_clock;

inline double seconds_since(BenchClock::time_point start) {
  return std::chrono::duration<double>(BenchClock::now() - start).count();
}

// Seconds of one run.
inline double seconds_of(const std::function<void()>& run) {
  const auto start = BenchClock::now();
  run();
  return seconds_since(start);
}

// The p-quantile of `values`; NaN if there are none.
inline double percentile(std::vector<double> values, double p) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto k = static_cast<std::ptrdiff_t>(std::lround(p * static_cast<double>(values.size() - 1)));
  std::ranges::nth_element(values, values.begin() + k);
  return values[static_cast<size_t>(k)];
}
inline double median(const std::vector<double>& values) { return percentile(values, 0.5); }

}  // namespace troupe
