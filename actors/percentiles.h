#pragma once
// Percentiles of figures of a run. Pure functions.

#include <algorithm>
#include <array>
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

// Of shares in ascending order, each at least 0 and at most 1.
template <class T, size_t kCount>
std::array<double, kCount> percentiles(const std::deque<T>& values, const std::array<double, kCount>& shares) {
  std::array<double, kCount> result;
  result.fill(kUnknown);
  std::vector<T> sorted(values.begin(), values.end());
  auto begin = sorted.begin();
  for (size_t i = 0; i < kCount && !sorted.empty(); ++i) {
    const auto nth = sorted.begin() + std::lround(shares[i] * static_cast<double>(sorted.size() - 1));
    std::nth_element(begin, nth, sorted.end());
    result[i] = static_cast<double>(*nth);
    begin = nth;
  }
  return result;
}

template <class T>
double percentile(const std::deque<T>& values, double share) {
  return percentiles<T, 1>(values, {share})[0];
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
