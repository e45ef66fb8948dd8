#pragma once
// Random rollouts [T, N] with terminal, truncated and invalid steps, and the comparison of
// results with a float64 oracle.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "algorithms/advantages/gae.h"
#include "algorithms/advantages/vtrace.h"
#include "runtime/base/rng.h"
#include "tests/algorithms/common/tokens.h"
#include "tests/support/test.h"

namespace troupe::test {

struct RandomRollout {
  int64_t steps = 0, columns = 0;
  std::vector<float> rewards, values, next_values, log_rho;
  std::vector<uint8_t> terminated, truncated, valid;

  RandomRollout(int64_t t, int64_t n, uint64_t seed, uint64_t one_in = 5, double void_share = 0.1)
      : steps(t), columns(n) {
    Rng rng(derive_key(seed, "segment"));
    for (int64_t i = 0; i < t * n; ++i) {
      rewards.push_back(rng.normal());
      values.push_back(rng.normal());
      next_values.push_back(rng.normal());
      log_rho.push_back(0.7f * rng.normal());
      terminated.push_back(rng.below(one_in) == 0);
      truncated.push_back(rng.below(one_in) == 0);
      valid.push_back(rng.uniform_double() >= void_share);
    }
  }

  std::size_t at(int64_t t, int64_t n) const { return static_cast<std::size_t>(t * columns + n); }
  std::size_t size() const { return rewards.size(); }
  bool live(std::size_t i) const { return valid.empty() || valid[i] != 0; }
  // Whether the step after (t, n) belongs to the same episode.
  bool linked(int64_t t, int64_t n) const {
    const std::size_t i = at(t, n);
    return live(i) && !terminated[i] && !truncated[i] && t + 1 < steps && live(at(t + 1, n));
  }
  // Sets next_values as in a rollout: V of the next step if the episode has one.
  void join_values() {
    for (int64_t t = 0; t + 1 < steps; ++t)
      for (int64_t n = 0; n < columns; ++n)
        if (linked(t, n)) next_values[at(t, n)] = values[at(t + 1, n)];
  }
  // Writes `x` to every number that must not be read.
  void poison_void(float x) {
    for (std::size_t i = 0; i < size(); ++i) {
      if (!live(i)) rewards[i] = values[i] = next_values[i] = log_rho[i] = x;
      if (terminated[i]) next_values[i] = x;
    }
  }

  GaeInput gae(float gamma = 0.99f, float lambda = 0.95f) const {
    return {steps, columns, rewards, values, next_values, terminated, truncated, valid, gamma, lambda, true};
  }
  VtraceInput vtrace(float gamma = 0.99f, float lambda = 1.0f) const {
    VtraceInput in;
    in.steps = steps;
    in.sequences = columns;
    in.log_rho = log_rho;
    in.rewards = rewards;
    in.values = values;
    in.next_values = next_values;
    in.terminated = terminated;
    in.truncated = truncated;
    in.valid = valid;
    in.gamma = gamma;
    in.lambda = lambda;
    return in;
  }
};

// Element i of a dense array of an input.
inline float at(const FloatView& view, std::size_t i) { return static_cast<const float*>(view.data)[i]; }

// The two outputs of an estimator: floats from the kernel or doubles from an oracle.
template <class T>
struct Pair {
  std::vector<T> first, second;
};

inline Pair<float> run(const GaeInput& in) {
  Pair<float> out{std::vector<float>(in.rewards.size, kNaN), std::vector<float>(in.rewards.size, kNaN)};
  gae(in, out.first, out.second);
  return out;
}

inline Pair<float> run(const VtraceInput& in) {
  Pair<float> out{std::vector<float>(in.rewards.size, kNaN), std::vector<float>(in.rewards.size, kNaN)};
  vtrace(in, out.first, out.second);
  return out;
}

// The largest difference, divided by 1e-5 + 2e-5 max|want|. At most 1 means equal up to the rounding of float. NaN
// never counts as equal.
template <class T>
double misfit(const std::vector<float>& got, const std::vector<T>& want) {
  REQUIRE(got.size() == want.size());
  double largest = 0, worst = 0;
  for (const T x : want) largest = std::max(largest, std::abs(static_cast<double>(x)));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    if (!(difference <= worst)) worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
  }
  return worst / (1e-5 + 2e-5 * largest);
}

// Sizes [T, N] around the size of a tile, and empty ones.
inline const std::vector<std::pair<int64_t, int64_t>>& shapes() {
  static const std::vector<std::pair<int64_t, int64_t>> kShapes = {
      {0, 0}, {0, 5}, {5, 0}, {1, 1}, {1, 7}, {7, 1}, {33, 3}, {16, 63}, {16, 64}, {9, 65}, {5, 130}, {300, 2}};
  return kShapes;
}

}  // namespace troupe::test
