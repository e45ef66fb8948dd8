#include "algorithms/common/groups.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "algorithms/common/names.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

// Whether a group has something to learn from: one finite number, or finite numbers that differ.
bool has_signal(std::span<const float> metric, std::span<const int64_t> sequences) {
  float low = metric[static_cast<std::size_t>(sequences.front())], high = low;
  for (const int64_t sequence : sequences) {
    const float x = metric[static_cast<std::size_t>(sequence)];
    if (!std::isfinite(x)) return false;
    low = std::min(low, x);
    high = std::max(high, x);
  }
  return high > low || sequences.size() == 1;
}

double weight_of(float score, ResampleWeight weight, double power, float low, float high) {
  switch (weight) {
    case ResampleWeight::pow: return std::pow(std::abs(double{score}), power);
    case ResampleWeight::max_min: return score == high || score == low ? 1.0 : 0.0;
    case ResampleWeight::max_random: return score == high ? 0.4 : 0.1;
  }
  return 0;
}

}  // namespace

GroupIndex index_groups(std::span<const int64_t> ids) {
  GroupIndex out;
  out.sequences.resize(ids.size());
  std::iota(out.sequences.begin(), out.sequences.end(), int64_t{0});
  const auto id = [&](int64_t sequence) { return ids[static_cast<std::size_t>(sequence)]; };
  std::stable_sort(out.sequences.begin(), out.sequences.end(), [&](int64_t a, int64_t b) { return id(a) < id(b); });
  for (std::size_t i = 0; i < out.sequences.size(); ++i)
    if (i == 0 || id(out.sequences[i]) != id(out.sequences[i - 1])) out.starts.push_back(static_cast<int64_t>(i));
  out.starts.push_back(static_cast<int64_t>(ids.size()));
  return out;
}

std::vector<uint8_t> groups_with_spread(std::span<const float> metric, std::span<const int64_t> ids) {
  TROUPE_CHECK(metric.size() == ids.size(), "metric", metric.size(), "groups", ids.size());
  std::vector<uint8_t> stays(ids.size(), 0);
  const GroupIndex index = index_groups(ids);
  for (int64_t g = 0; g < index.count(); ++g) {
    const std::span<const int64_t> sequences = index.group(g);
    if (!has_signal(metric, sequences)) continue;
    for (const int64_t sequence : sequences) stays[static_cast<std::size_t>(sequence)] = 1;
  }
  return stays;
}

std::vector<int64_t> filter_groups(std::span<const float> metric, std::span<const int64_t> ids, int64_t max_groups) {
  std::vector<uint8_t> stays = groups_with_spread(metric, ids);
  const GroupIndex index = index_groups(ids);
  std::vector<int64_t> order(static_cast<std::size_t>(index.count()));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return index.group(a).front() < index.group(b).front(); });
  int64_t taken = 0;
  for (const int64_t g : order) {
    const std::span<const int64_t> sequences = index.group(g);
    if (stays[static_cast<std::size_t>(sequences.front())] == 0 || max_groups < 0 || taken++ < max_groups) continue;
    for (const int64_t sequence : sequences) stays[static_cast<std::size_t>(sequence)] = 0;
  }
  std::vector<int64_t> kept;
  for (std::size_t sequence = 0; sequence < stays.size(); ++sequence)
    if (stays[sequence] != 0) kept.push_back(static_cast<int64_t>(sequence));
  return kept;
}

ResampleWeight find_resample_weight(std::string_view name) {
  static constexpr std::array<std::string_view, 3> kNames = {"pow", "max_min", "max_random"};
  return static_cast<ResampleWeight>(find_name("method", name, kNames));
}

std::vector<double> resample_weights(std::span<const float> scores, ResampleWeight weight, double power) {
  constexpr double kFloor = 1e-8;
  TROUPE_CHECK(std::isfinite(power) && power >= 0, "power", power);
  std::vector<double> weights;
  if (scores.empty()) return weights;
  for (const float score : scores) TROUPE_CHECK(std::isfinite(score), "scores", score);
  const auto [low, high] = std::minmax_element(scores.begin(), scores.end());
  for (const float score : scores) weights.push_back(weight_of(score, weight, power, *low, *high) + kFloor);
  return weights;
}

std::vector<int64_t> draw_sequences(std::span<const double> weights, int64_t count, uint64_t seed) {
  TROUPE_CHECK(count >= 0, "count", count);
  std::vector<double> reached;
  double sum = 0;
  for (const double weight : weights) {
    TROUPE_CHECK(weight >= 0 && std::isfinite(weight), "weights", weight);
    reached.push_back(sum += weight);
  }
  TROUPE_CHECK(count == 0 || (sum > 0 && std::isfinite(sum)), "sum of weights", sum);
  Rng rng(derive_key(seed, "resampled rows"));
  std::vector<int64_t> sequences;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = std::upper_bound(reached.begin(), reached.end(), rng.uniform_double() * sum);
    // Rounding can make the product equal to the sum. Then take the last sequence with a weight.
    const auto last = std::lower_bound(reached.begin(), reached.end(), sum);
    sequences.push_back(std::min(at, last) - reached.begin());
  }
  return sequences;
}

}  // namespace troupe
