#include "algorithms/common/moments.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "algorithms/common/names.h"
#include "algorithms/common/tile.h"

namespace troupe {

namespace {

// The sum of f(x) over the unmasked elements, in eight independent accumulators so that the additions overlap.
template <class F>
double masked_sum(std::span<const float> x, std::span<const uint8_t> mask, F f) {
  constexpr std::size_t kLanes = 8;
  double lanes[kLanes] = {};
  const auto add = [&](std::size_t lane, std::size_t i) {
    if (mask.empty() || mask[i] != 0) lanes[lane] += f(double{x[i]});
  };
  std::size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
  for (; i < x.size(); ++i) add(i % kLanes, i);
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

double divisor(const Moments& moments, const WhitenParams& params) {
  constexpr double kMinimumVariance = 1e-12;
  const double variance = moments.variance(params.unbiased);
  switch (params.guard) {
    case WhitenGuard::add_to_std: return std::sqrt(std::max(variance, kMinimumVariance)) + params.epsilon;
    case WhitenGuard::add_to_variance: return std::sqrt(variance + params.epsilon);
    case WhitenGuard::floor_variance: return std::sqrt(std::max(variance, params.epsilon));
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

WhitenParams find_whiten_variant(std::string_view name, std::string_view path) {
  // The libraries behind these names are introduced in moments.h.
  static constexpr std::array<std::string_view, 5> kNames = {"verl", "slime", "openrlhf", "accerl",
                                                             "lm_human_preferences"};
  WhitenParams params;
  params.zero_masked = false;
  switch (find_name(path, name, kNames)) {
    case 0:
    case 1:  // statistics over all ranks; differs from verl only for fewer than two elements
      params.unbiased = true;
      params.guard = WhitenGuard::add_to_variance;
      break;
    case 2: params.guard = WhitenGuard::floor_variance; break;
    case 4: params.guard = WhitenGuard::add_to_variance; break;
    default: break;  // accerl: the defaults
  }
  return params;
}

void Moments::add(double x) {
  count += 1;
  const double delta = x - mean;
  mean += delta / count;
  m2 += delta * (x - mean);
}

void Moments::merge(const Moments& other) {
  if (other.count == 0) return;
  const double total = count + other.count;
  const double delta = other.mean - mean;
  mean += delta * (other.count / total);
  m2 += other.m2 + delta * delta * (count * other.count / total);
  count = total;
}

double Moments::variance(bool unbiased) const {
  const double n = unbiased ? count - 1 : count;
  return n > 0 ? m2 / n : 0.0;
}

double Moments::stddev(bool unbiased) const { return std::sqrt(variance(unbiased)); }

Moments masked_moments(std::span<const float> x, std::span<const uint8_t> mask) {
  TROUPE_CHECK(fits_or_empty(mask, x.size()), "x", x.size(), "mask", mask.size());
  Moments out;
  out.count = mask.empty() ? static_cast<double>(x.size())
                           : static_cast<double>(mask.size() - std::count(mask.begin(), mask.end(), uint8_t{0}));
  if (out.count == 0) return out;
  out.mean = masked_sum(x, mask, [](double v) { return v; }) / out.count;
  out.m2 = masked_sum(x, mask, [&](double v) { return (v - out.mean) * (v - out.mean); });
  return out;
}

void whiten(std::span<float> x, std::span<const uint8_t> mask, const WhitenParams& params) {
  whiten(x, mask, masked_moments(x, mask), params);
}

void whiten(std::span<float> x, std::span<const uint8_t> mask, const Moments& moments, const WhitenParams& params) {
  TROUPE_CHECK(fits_or_empty(mask, x.size()), "x", x.size(), "mask", mask.size());
  TROUPE_CHECK(params.epsilon >= 0, "epsilon", params.epsilon);
  if (params.strict && moments.count < 2)
    throw ConfigError("mask: " + std::to_string(static_cast<int64_t>(moments.count)) +
                      " unmasked elements, but whitening needs at least 2");
  if (moments.count == 0) {
    std::fill(x.begin(), x.end(), 0.0f);
    return;
  }
  const double factor = params.scale && moments.count > 1 ? 1.0 / divisor(moments, params) : 1.0;
  const double offset = params.shift_mean ? 0.0 : moments.mean;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool keep = !params.zero_masked || mask.empty() || mask[i] != 0;
    x[i] = keep ? static_cast<float>((double{x[i]} - moments.mean) * factor + offset) : 0.0f;
  }
}

}  // namespace troupe
