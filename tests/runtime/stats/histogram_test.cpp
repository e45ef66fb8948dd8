#include "runtime/stats/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/base/rng.h"
#include "runtime/stats/histogram_json.h"
#include "runtime/stats/prometheus.h"
#include "runtime/stats/snapshot.h"
#include "tests/support/exported_fields.h"
#include "tests/support/test.h"

using namespace troupe;
using nlohmann::json;

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The first bound that is not below the value, searched one after the other.
size_t searched_bucket(double value) {
  size_t bucket = 0;
  while (bucket + 1 < Histogram::kBuckets && Histogram::bound_of(bucket) < value) ++bucket;
  return bucket;
}

Histogram of(std::initializer_list<double> values) {
  Histogram histogram;
  for (const double value : values) histogram.add(value);
  return histogram;
}

size_t lines_with(const std::string& text, std::string_view beginning) {
  size_t lines = 0;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    lines += text.compare(at, beginning.size(), beginning) == 0;
  return lines;
}

}  // namespace

TEST_CASE("histogram: bounds grow by a factor of 2^(1/4), from 0 to infinity") {
  CHECK(Histogram::bound_of(0) == 0);
  CHECK(Histogram::bound_of(1) == std::ldexp(1, Histogram::kFirst));
  CHECK(Histogram::bound_of(Histogram::kBuckets - 2) == std::ldexp(1, Histogram::kLast));
  CHECK(Histogram::bound_of(Histogram::kBuckets - 1) == kInfinite);
  for (size_t bucket = 1; bucket + 2 < Histogram::kBuckets; ++bucket)
    CHECK(Histogram::bound_of(bucket + 1) / Histogram::bound_of(bucket) == doctest::Approx(std::pow(2, 0.25)));
}

TEST_CASE("histogram: a value is in the first bucket whose bound it does not exceed") {
  std::vector<double> values = {-kInfinite, -1, -0.0, 0, std::numeric_limits<double>::denorm_min(), 1e300, kInfinite};
  Rng rng(7);
  for (int i = 0; i < 2000; ++i) values.push_back(std::exp2(60 * rng.uniform() - 35));
  for (size_t bucket = 0; bucket + 1 < Histogram::kBuckets; ++bucket) {
    const double bound = Histogram::bound_of(bucket);
    values.insert(values.end(), {bound, std::nextafter(bound, 1e300), std::nextafter(bound, -1)});
  }
  for (const double value : values) {
    CAPTURE(value);
    CHECK(Histogram::bucket_of(value) == searched_bucket(value));
  }
}

TEST_CASE("histogram: whole numbers up to 6 have a bucket each") {
  for (int n = 0; n < 6; ++n) CHECK(Histogram::bucket_of(n) < Histogram::bucket_of(n + 1));
  for (const int n : {0, 1, 2, 4, 8, 16}) CHECK(Histogram::bound_of(Histogram::bucket_of(n)) == n);
}

TEST_CASE("histogram: values that are not finite are left out, and negative ones add nothing to the sum") {
  const Histogram histogram = of({kInfinite, -kInfinite, std::nan(""), -5, 3});
  CHECK(histogram.count() == 2);
  CHECK(histogram.sum() == 3);
}

TEST_CASE("histogram: a percentile is the bound of the bucket that has it") {
  Rng rng(11);
  std::vector<double> values;
  Histogram histogram;
  CHECK(std::isnan(histogram.percentile(0.5)));
  for (int i = 0; i < 999; ++i) {
    values.push_back(std::exp2(20 * rng.uniform() - 10));
    histogram.add(values.back());
  }
  std::ranges::sort(values);
  for (const double p : {0.001, 0.5, 0.99, 1.0}) {
    const double exact = values[static_cast<size_t>(std::ceil(p * 999)) - 1];
    CHECK(histogram.percentile(p) == Histogram::bound_of(searched_bucket(exact)));
  }
}

TEST_CASE("histogram: adding the counts of another one is the same as adding its values") {
  Histogram first = of({0, 1, 2.5}), all = of({0, 1, 2.5, 2.5, 1e9});
  CHECK(first.add(of({2.5, 1e9}).counts()));
  CHECK(first.counts().buckets == all.counts().buckets);
  CHECK(first.sum() == all.sum());
}

TEST_CASE("histogram: counts that no histogram has are refused, and nothing is added") {
  Histogram histogram = of({1});
  const HistogramCounts good = of({2}).counts();
  std::vector<HistogramCounts> wrong(5, good);
  wrong[0].buckets[0].first = Histogram::kBuckets;
  wrong[1].buckets[0].second = UINT64_MAX;
  wrong[2].sum = std::nan("");
  wrong[3].sum = -1;
  wrong[4].buckets.assign(Histogram::kBuckets + 1, {0, 1});
  for (const HistogramCounts& counts : wrong) CHECK_FALSE(histogram.add(counts));
  CHECK(histogram.count() == 1);
  CHECK(histogram.sum() == 1);
}

TEST_CASE("histogram: as JSON it has the buckets that are not empty, and back the same counts") {
  CHECK(histogram_json<json>({}).is_null());
  Histogram every;
  for (size_t bucket = 0; bucket + 1 < Histogram::kBuckets; ++bucket)
    every.add(Histogram::bound_of(bucket), bucket + 1);
  for (const Histogram& histogram : {of({0, 1, 1, 3, 1e7}), every}) {
    const json value = json::parse(histogram_json<json>(histogram).dump());
    const Histogram back = histogram_of(value);
    CHECK(back.counts().buckets == histogram.counts().buckets);
    CHECK(back.sum() == histogram.sum());
  }
  const json value = json::parse(histogram_json<json>(of({0, 1, 1, 3, 1e7})).dump());
  CHECK(value["le"] == json::parse("[0.0, 1.0, 3.3636, null]"));
  CHECK(value["count"] == json::parse("[1, 2, 1, 1]"));
  CHECK(value["sum"] == 10'000'005);
  CHECK(value["p50"] == 1);
  CHECK(value["p99"].is_null());
}

TEST_CASE(
    "histogram: bounds of whole numbers are whole, not below a number of their bucket, and back the same counts") {
  for (int number = 0; number <= 20'000; ++number) {
    const Histogram histogram = of({static_cast<double>(number)});
    const json value = histogram_json<json>(histogram, Values::whole);
    const double bound = value["le"][0].get<double>();
    REQUIRE(bound == std::floor(bound));
    REQUIRE(bound >= number);
    REQUIRE(bound <= 1.19 * number);
    REQUIRE(value["p50"] == bound);
    REQUIRE(histogram_of(value).counts().buckets == histogram.counts().buckets);
  }
}

TEST_CASE("histogram: in a snapshot, lags and batch sizes have bounds that are whole numbers") {
  StatsSnapshot s;
  s.histograms.lag.add(3);
  s.histograms.batch_rows.add(7);
  const json value = json::parse(to_json(s))["histograms"];
  CHECK(value["lag"]["le"] == json::parse("[3.0]"));
  CHECK(value["batch_rows"]["le"] == json::parse("[8.0]"));
}

TEST_CASE("histogram: JSON of another form is an empty one") {
  for (const char* wrong :
       {"null", "3", "[]", "{}", R"({"le": [1], "count": [1]})", R"({"le": [1], "count": [1, 2], "sum": 1})",
        R"({"le": ["1"], "count": [1], "sum": 1})", R"({"le": [1], "count": [-1], "sum": 1})",
        R"({"le": 1, "count": 1, "sum": 1})", R"({"le": [1], "count": [1], "sum": null})"})
    CHECK(histogram_of(json::parse(wrong)).count() == 0);
}

TEST_CASE("histogram: Prometheus gets cumulative buckets at powers of 2") {
  StatsSnapshot s;
  for (const double lag : {0.0, 0.0, 3.0, 20'000.0}) s.histograms.lag.add(lag);
  const std::vector<ExportedMetric> metrics = {
      exported_metric("histograms.lag", "lag{le=*}", "updates", "lags"),
      exported_metric("histograms.batch_rows", "rows{le=*}", "rows", "none yet"),
  };
  const std::string text = prometheus_text(json::parse(to_json(s)), metrics, false);
  CHECK(
      text.starts_with("# HELP troupe_lag lags\n# TYPE troupe_lag histogram\ntroupe_lag_bucket{le=\"0.0\"} 2\n"
                       "troupe_lag_bucket{le=\"1.0\"} 2\ntroupe_lag_bucket{le=\"2.0\"} 2\n"
                       "troupe_lag_bucket{le=\"4.0\"} 3\n"));
  CHECK(
      text.ends_with("troupe_lag_bucket{le=\"16384.0\"} 3\ntroupe_lag_bucket{le=\"+Inf\"} 4\ntroupe_lag_sum 20003.0\n"
                     "troupe_lag_count 4\n"));
}

TEST_CASE("histogram: all those of a run are fewer than 250 series, the same ones whatever the values") {
  const std::vector<ExportedMetric> metrics = test::exported_snapshot_fields();
  std::vector<size_t> series;
  for (const double value : {1e-12, 0.003, 1e9}) {
    StatsSnapshot s;
    RunHistograms& h = s.histograms;
    for (Histogram* each :
         {&h.inference_seconds, &h.batch_rows, &h.lag, &h.update_seconds, &h.step_seconds, &h.answer_seconds})
      each->add(value);
    const std::string text = prometheus_text(json::parse(to_json(s)), metrics, true);
    series.push_back(lines_with(text, "troupe_") -
                     lines_with(prometheus_text(json::parse(to_json(StatsSnapshot())), metrics, true), "troupe_"));
  }
  CHECK(series[0] == 4 * (31 + 3) + 2 * (1 + 15 + 3));
  CHECK(series[1] == series[0]);
  CHECK(series[2] == series[0]);
}
