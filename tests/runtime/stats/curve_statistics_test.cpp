#include "runtime/stats/curve_statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

std::vector<double> values_of(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(100 * rng.uniform_double() - 30);
  return values;
}

// scipy.stats.trim_mean(values, 0.25).
double trim_mean(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t cut = static_cast<size_t>(0.25 * static_cast<double>(values.size()));
  double sum = 0;
  for (size_t i = cut; i < values.size() - cut; ++i) sum += values[i];
  return sum / static_cast<double>(values.size() - 2 * cut);
}

// The values of one resample, each as often as it was drawn.
std::vector<double> drawn(const std::vector<double>& values, std::span<const uint32_t> times) {
  std::vector<double> result;
  for (size_t i = 0; i < values.size(); ++i) result.insert(result.end(), times[i], values[i]);
  return result;
}

}  // namespace

TEST_CASE("interquartile_mean: scipy's trimmed mean with a quarter cut off at both ends") {
  // scipy.stats.trim_mean([...], 0.25)
  CHECK(interquartile_mean(std::vector<double>{5}) == 5);
  CHECK(interquartile_mean(std::vector<double>{1, 2, 6}) == 3);
  CHECK(interquartile_mean(std::vector<double>{100, 1, 3, -50}) == 2);
  CHECK(interquartile_mean(std::vector<double>{9, 1, 8, 2, 7, 3, 6, 4, 5, 1000}) == 5.5);
  CHECK(std::isnan(interquartile_mean({})));
  for (size_t count = 1; count < 40; ++count) {
    const std::vector<double> values = values_of(count, count);
    CHECK(std::abs(interquartile_mean(values) - trim_mean(values)) < 1e-9);
  }
}

TEST_CASE("Resamples: draw as many runs of each stratum as there are, the same for the same seed") {
  const std::vector<size_t> strata = {0, 1, 0, 1, 1};
  const Resamples first(strata, 500, 3), again(strata, 500, 3), other(strata, 500, 4);
  REQUIRE(first.count() == 500);
  std::vector<double> total(strata.size());
  bool differ = false;
  for (size_t i = 0; i < first.count(); ++i) {
    const std::span<const uint32_t> times = first[i];
    CHECK(times[0] + times[2] == 2);
    CHECK(times[1] + times[3] + times[4] == 3);
    CHECK(std::ranges::equal(times, again[i]));
    differ = differ || !std::ranges::equal(times, other[i]);
    for (size_t run = 0; run < total.size(); ++run) total[run] += times[run];
  }
  CHECK(differ);
  for (const double times : total) CHECK(std::abs(times / 500 - 1) < 0.15);  // each run is drawn once on average
}

TEST_CASE("percentile: as numpy, linear between the neighbours") {
  const std::vector<double> sorted = {1, 2, 4, 8};
  CHECK(percentile(sorted, 0) == 1);
  CHECK(percentile(sorted, 1) == 8);
  CHECK(percentile(sorted, 0.5) == 3);
  CHECK(percentile(sorted, 0.025) == doctest::Approx(1.075));
  CHECK(percentile(std::vector<double>{7}, 0.975) == 7);
}

TEST_CASE("bootstrap_interval: the percentiles of the interquartile means of the resamples") {
  for (size_t count : {2, 5, 10, 30}) {
    const std::vector<double> values = values_of(count, 7);
    const Resamples resamples(std::vector<size_t>(count, 0), 400, 1);
    std::vector<double> means;
    for (size_t i = 0; i < resamples.count(); ++i) means.push_back(trim_mean(drawn(values, resamples[i])));
    std::ranges::sort(means);
    const BootstrapInterval interval = bootstrap_interval(values, resamples);
    CHECK(std::abs(interval.low - percentile(means, 0.025)) < 1e-9);
    CHECK(std::abs(interval.high - percentile(means, 0.975)) < 1e-9);
    CHECK(interval.low <= interquartile_mean(values));
    CHECK(interval.high >= interquartile_mean(values));
  }
}

TEST_CASE("bootstrap_interval: of one run, and of equal runs, has no width") {
  const std::vector<double> equal(6, 2.5);
  const BootstrapInterval interval = bootstrap_interval(equal, Resamples(std::vector<size_t>(6, 0), 50, 0));
  CHECK(interval.low == 2.5);
  CHECK(interval.high == 2.5);
}
