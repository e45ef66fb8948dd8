#include "actors/latest_batches.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "tests/support/test.h"

using namespace troupe;

namespace {

// Forward passes of first, first + 1, ... rows, and as many microseconds.
InferenceReport passes(int32_t first, size_t count) {
  std::vector<int32_t> rows(count);
  std::iota(rows.begin(), rows.end(), first);
  InferenceReport report;
  report.batch_rows = Array::of(rows);
  report.latency_us = Array::of(std::vector<float>(rows.begin(), rows.end()));
  return report;
}

StatsSnapshot figures(LatestBatches& batches) {
  StatsSnapshot s;
  batches.fill(s);
  return s;
}

}  // namespace

TEST_CASE("percentiles: several of the same values, also of one value and of none") {
  const std::deque<int> values{5, 1, 4, 2, 3};
  CHECK(percentiles<int, 4>(values, {0, 0.5, 0.5, 1}) == std::array<double, 4>{1, 3, 3, 5});
  CHECK(percentiles<int, 2>({7}, {0.5, 0.99}) == std::array<double, 2>{7, 7});
  CHECK(std::isnan(percentiles<int, 2>({}, {0.5, 0.99})[1]));
}

TEST_CASE("latest_batches: figures of what has come last, at most 8192 passes") {
  LatestBatches batches;
  CHECK(std::isnan(figures(batches).batch_size_p50));
  batches.add(passes(1, 101));
  CHECK(figures(batches).batch_size_p50 == 51);
  CHECK(figures(batches).inference_p50_ms == 0.051);
  CHECK(figures(batches).inference_p99_ms == 0.1);
  batches.add(passes(10'001, 8192));
  CHECK(figures(batches).batch_size_p50 == 14'097);
  CHECK(batches.save().size() == 8192);
}

TEST_CASE("latest_batches: sizes are kept over a restart, times are not") {
  LatestBatches batches, restored;
  batches.add(passes(1, 3));
  restored.load(batches.save());
  CHECK(figures(restored).batch_size_p50 == 2);
  CHECK(std::isnan(figures(restored).inference_p50_ms));
}
