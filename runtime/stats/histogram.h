#pragma once
// Histogram: how often values of each size occurred, in buckets whose bounds grow by a factor of 2^(1/4). Adding a
// value takes constant time, without a lock and without memory. Plain data; one thread at a time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace troupe {

// What a histogram has counted, as messages and saved states hold it.
struct HistogramCounts {
  std::vector<std::pair<uint16_t, uint64_t>> buckets;  // index and count of those that are not empty, ascending
  double sum = 0;
};

class Histogram {
 public:
  // The bounds are the powers of 2^(1/4) from 2^kFirst to 2^kLast, each part of the bucket below it. So whole numbers
  // up to 6 have a bucket each. Before these buckets is one of values that are not above 0, after them one of larger
  // values.
  static constexpr int kFirst = -30, kLast = 20;
  static constexpr size_t kBuckets = 4 * static_cast<size_t>(kLast - kFirst) + 3;

  // Values that are not finite are left out.
  void add(double value, uint64_t count = 1);
  // Adds what another one has counted. False, and then nothing is added, if no histogram can have counted it.
  bool add(const HistogramCounts& counts);

  uint64_t count() const;
  double sum() const { return sum_; }
  // How many values the bucket of `bound` and those before it hold.
  uint64_t count_up_to(double bound) const;
  // The bound of the bucket with the smallest value that at least a fraction p of the values do not exceed: up to 19 %
  // more than that value. Unknown (NaN) without a value.
  double percentile(double p) const;
  HistogramCounts counts() const;

  // The bucket of a finite value, and the bound of a bucket; that of the last one is infinite.
  static size_t bucket_of(double value);
  static double bound_of(size_t bucket);

 private:
  std::array<uint64_t, kBuckets> counts_{};
  double sum_ = 0;
};

}  // namespace troupe
