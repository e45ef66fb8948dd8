#pragma once
// What several tasks compute, in the order and precision of NumPy, and the parameters that they share. Any thread.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "envs/params.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {

// np.sum(np.square(values)) of a contiguous array of at most 128 elements: eight partial sums (NumPy's pairwise_sum).
template <class T>
T sum_of_squares(std::span<const T> values) {
  constexpr size_t kLanes = 8, kBlock = 128;
  TROUPE_CHECK(values.size() <= kBlock, values.size());
  const size_t whole = values.size() < kLanes ? 0 : values.size() - values.size() % kLanes;
  T sum = 0;
  if (whole > 0) {
    T lane[kLanes] = {};
    for (size_t i = 0; i < whole; ++i) lane[i % kLanes] += values[i] * values[i];
    sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
  }
  for (size_t i = whole; i < values.size(); ++i) sum += values[i] * values[i];
  return sum;
}

// The cost of an action, which Gymnasium computes in float32.
inline float control_cost(double weight, std::span<const float> action) {
  return static_cast<float>(weight) * sum_of_squares(action);
}

// Adds numbers from U(-scale, scale).
inline void add_uniform(std::vector<double>& values, double scale, Rng& rng) {
  for (double& value : values) value += -scale + 2 * scale * rng.uniform_double();
}

// Adds numbers from N(0, scale^2).
inline void add_normal(std::vector<double>& values, double scale, Rng& rng) {
  for (double& value : values) value += scale * static_cast<double>(rng.normal());
}

// Writes count numbers to `out` and returns the place after them.
inline double* write(double* out, const double* from, int64_t count) { return std::copy_n(from, count, out); }

inline double* write_clipped(double* out, const double* from, int64_t count, double limit) {
  return std::transform(from, from + count, out, [=](double value) { return std::clamp(value, -limit, limit); });
}

// A parameter that scales a term of the reward.
inline double read_weight(EnvParams& params, const char* key, double fallback, std::string_view help) {
  return params.number(key, fallback, -1e9, 1e9, help);
}

inline double read_noise(EnvParams& params, double fallback) {
  return params.number("reset_noise_scale", fallback, 0, 1e3, "size of the noise in the first state of an episode");
}

inline bool read_exclusion(EnvParams& params) {
  return params.boolean("exclude_current_positions_from_observation", true,
                        "leave the position in the direction of motion out of the observation");
}

inline bool read_termination(EnvParams& params) {
  return params.boolean("terminate_when_unhealthy", true, "end the episode when the body leaves its healthy range");
}

// An open or closed interval, given by two parameters NAME_min and NAME_max.
struct Interval {
  double low = 0, high = 0;

  bool contains(double value) const { return low < value && value < high; }  // open
  static Interval read(EnvParams& params, const std::string& name, Interval fallback, std::string_view help) {
    const double low = params.number(name + "_min", fallback.low, -kUnlimited, kUnlimited, help);
    return {low, params.number(name + "_max", fallback.high, low, kUnlimited, help)};
  }
  static constexpr double kUnlimited = 1e9;
};

}  // namespace troupe
