#pragma once
// Histograms as JSON: {"le": bounds, "count": counts, "sum": sum, "p50": median, "p99": percentile}, with only the
// buckets that are not empty, each with its own count; a bound that is infinite is null. null if all are empty. Bounds
// of whole numbers are the largest ones of their buckets. Included only by sources that read or write figures.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <nlohmann/json_fwd.hpp>

#include "runtime/stats/histogram.h"

namespace troupe {

enum class Values : uint8_t { real, whole };

// With five digits: the bounds are further apart.
inline double shown_bound(double bound, Values values) {
  if (values == Values::whole) return std::floor(bound);
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", bound);
  return std::strtod(text, nullptr);
}

template <class Json>
Json histogram_json(const Histogram& histogram, Values values = Values::real) {
  const HistogramCounts counts = histogram.counts();
  if (counts.buckets.empty()) return {};
  Json bounds = Json::array(), each = Json::array();
  for (const auto& [bucket, count] : counts.buckets) {
    const double bound = Histogram::bound_of(bucket);
    bounds.push_back(std::isfinite(bound) ? Json(shown_bound(bound, values)) : Json());
    each.push_back(count);
  }
  Json result = Json::object();
  result["le"] = std::move(bounds);
  result["count"] = std::move(each);
  result["sum"] = counts.sum;
  result["p50"] = shown_bound(histogram.percentile(0.5), values);
  result["p99"] = shown_bound(histogram.percentile(0.99), values);
  return result;
}

// What has another form is as empty.
template <class Json>
Histogram histogram_of(const Json& value) {
  if (!value.is_object() || !value.contains("le") || !value.contains("count") || !value.contains("sum")) return {};
  const Json &bounds = value["le"], &each = value["count"], &sum = value["sum"];
  if (!bounds.is_array() || !each.is_array() || bounds.size() != each.size() || !sum.is_number()) return {};
  HistogramCounts counts{{}, sum.template get<double>()};
  for (size_t i = 0; i < each.size(); ++i) {
    if (!each[i].is_number_unsigned() || !(bounds[i].is_null() || bounds[i].is_number())) return {};
    // A bound that was rounded up is less than half a bucket above the exact one; one of whole numbers is less than 12
    // % below it, and so in the same bucket after all.
    const size_t bucket =
        bounds[i].is_null() ? Histogram::kBuckets - 1 : Histogram::bucket_of(bounds[i].template get<double>() / 1.05);
    counts.buckets.emplace_back(static_cast<uint16_t>(bucket), each[i].template get<uint64_t>());
  }
  Histogram histogram;
  return histogram.add(counts) ? histogram : Histogram();
}

}  // namespace troupe
