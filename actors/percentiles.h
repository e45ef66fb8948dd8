#pragma once
// Percentiles of figures of a run. Pure functions.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "actors/messages/local.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

// Keeps the last `limit` values.
template <class T>
void append_bounded(std::deque<T>& window, const Array& values, size_t limit) {
  if (values.empty()) return;
  for (const T value : values.view<T>()) window.push_back(value);
  while (window.size() > limit) window.pop_front();
}

template <class T>
double percentile(const std::deque<T>& values, double p) {
  if (values.empty()) return kUnknown;
  std::vector<T> sorted(values.begin(), values.end());
  const auto k = static_cast<size_t>(std::lround(p * static_cast<double>(sorted.size() - 1)));
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(k), sorted.end());
  return static_cast<double>(sorted[k]);
}

// The smallest lag that at least a fraction p of the samples do not exceed.
inline double lag_percentile(const LagCounts& counts, double p) {
  uint64_t total = 0, seen = 0;
  for (const auto& [lag, count] : counts) total += count;
  for (const auto& [lag, count] : counts) {
    seen += count;
    if (static_cast<double>(seen) >= p * static_cast<double>(total)) return static_cast<double>(lag);
  }
  return kUnknown;
}

}  // namespace troupe
