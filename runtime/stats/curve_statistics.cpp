#include "runtime/stats/curve_statistics.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "runtime/base/rng.h"

namespace troupe {

namespace {

// The interquartile mean of values that count several times. `order` are their indices from the smallest value on.
double weighted_interquartile_mean(std::span<const double> values, std::span<const size_t> order,
                                   std::span<const uint32_t> times) {
  const size_t total = std::accumulate(times.begin(), times.end(), size_t{0});
  const size_t begin = total / 4, end = total - begin;
  double sum = 0;
  for (size_t i = 0, from = 0; i < order.size() && from < end; ++i) {
    const size_t to = from + times[order[i]];
    const size_t inside = std::min(to, end) - std::min(std::max(from, begin), std::min(to, end));
    sum += static_cast<double>(inside) * values[order[i]];
    from = to;
  }
  return sum / static_cast<double>(end - begin);
}

std::vector<size_t> order_of(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  return order;
}

}  // namespace

double interquartile_mean(std::span<const double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<uint32_t> once(values.size(), 1);
  return weighted_interquartile_mean(values, order_of(values), once);
}

Resamples::Resamples(std::span<const size_t> stratum_of, size_t count, uint64_t seed)
    : runs_(stratum_of.size()), times_(count * stratum_of.size(), 0) {
  std::map<size_t, std::vector<size_t>> strata;
  for (size_t i = 0; i < stratum_of.size(); ++i) strata[stratum_of[i]].push_back(i);
  for (size_t resample = 0; resample < count; ++resample) {
    Rng rng(derive_key(seed, "resample", resample));
    for (const auto& [stratum, members] : strata)
      for (size_t drawn = 0; drawn < members.size(); ++drawn)
        ++times_[resample * runs_ + members[rng.below(members.size())]];
  }
}

double percentile(std::span<const double> sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = std::min(static_cast<size_t>(at), sorted.size() - 1);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

BootstrapInterval bootstrap_interval(std::span<const double> values, const Resamples& resamples, double size) {
  const std::vector<size_t> order = order_of(values);
  std::vector<double> means(resamples.count());
  for (size_t i = 0; i < means.size(); ++i) means[i] = weighted_interquartile_mean(values, order, resamples[i]);
  std::ranges::sort(means);
  return {percentile(means, (1 - size) / 2), percentile(means, (1 + size) / 2)};
}

}  // namespace troupe
