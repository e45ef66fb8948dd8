#include "runtime/stats/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace troupe {

namespace {

// 2^(k/4) for k = 1, 2, 3.
constexpr double kQuarter = 1.189207115002721, kHalf = 1.4142135623730951, kThreeQuarters = 1.681792830507429;
constexpr double kLargest = 1e12;                      // values above count as this in the sum
constexpr uint64_t kMostOfBucket = uint64_t{1} << 48;  // in counts that come from elsewhere
constexpr double kMostOfSum = 1e18;

}  // namespace

size_t Histogram::bucket_of(double value) {
  if (!(value > 0)) return 0;
  if (std::isinf(value)) return kBuckets - 1;
  int exponent = 0;
  const double mantissa = 2 * std::frexp(value, &exponent);  // in [1, 2)
  const int quarters = (mantissa > 1) + (mantissa > kQuarter) + (mantissa > kHalf) + (mantissa > kThreeQuarters);
  const int above_first = 4 * (exponent - 1 - kFirst) + quarters;
  return static_cast<size_t>(std::clamp(above_first, 0, static_cast<int>(kBuckets) - 2)) + 1;
}

double Histogram::bound_of(size_t bucket) {
  constexpr std::array kRoots = {1.0, kQuarter, kHalf, kThreeQuarters};
  if (bucket == 0) return 0;
  if (bucket + 1 >= kBuckets) return std::numeric_limits<double>::infinity();
  return std::ldexp(kRoots[(bucket - 1) % 4], kFirst + static_cast<int>((bucket - 1) / 4));
}

void Histogram::add(double value, uint64_t count) {
  if (!std::isfinite(value)) return;
  counts_[bucket_of(value)] += count;
  sum_ += std::clamp(value, 0.0, kLargest) * static_cast<double>(count);
}

bool Histogram::add(const HistogramCounts& counts) {
  if (!(counts.sum >= 0 && counts.sum <= kMostOfSum)) return false;
  for (const auto& [bucket, count] : counts.buckets)
    if (bucket >= kBuckets || count > kMostOfBucket) return false;
  if (counts.buckets.size() > kBuckets) return false;
  for (const auto& [bucket, count] : counts.buckets) counts_[bucket] += count;
  sum_ += counts.sum;
  return true;
}

uint64_t Histogram::count() const { return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0}); }

uint64_t Histogram::count_up_to(double bound) const {
  const auto end = counts_.begin() + static_cast<std::ptrdiff_t>(bucket_of(bound)) + 1;
  return std::accumulate(counts_.begin(), end, uint64_t{0});
}

double Histogram::percentile(double p) const {
  const auto total = static_cast<double>(count());
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += counts_[bucket];
    if (counts_[bucket] > 0 && static_cast<double>(seen) >= p * total) return bound_of(bucket);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

HistogramCounts Histogram::counts() const {
  HistogramCounts result{{}, sum_};
  for (size_t bucket = 0; bucket < kBuckets; ++bucket)
    if (counts_[bucket] > 0) result.buckets.emplace_back(static_cast<uint16_t>(bucket), counts_[bucket]);
  return result;
}

}  // namespace troupe
