#pragma once
// The few array primitives of softmax and tanh, written so that the compiler vectorises them without -ffast-math: sums
// run in 16 fixed lanes and nothing is contracted to fused multiply-add, so a result depends neither on the vector unit
// nor on where in an array a number stands. Pure functions; any thread.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "algorithms/common/exp.h"

namespace troupe {

constexpr int64_t kLanes = 16;

// exp(x) for x <= 0 to 2 units in the last place; 0 below -kExpLimit (where float32 turns subnormal).
inline float exp_of_nonpositive(float x) {
  const float result = exp_bounded(std::max(x, -kExpLimit));
  return x < -kExpLimit ? 0.0f : result;
}

namespace detail {
void exp_of_many_differences(const float* x, float largest, int64_t count, float* out);
}

// out = exp(x - largest), for x <= largest.
inline void exp_of_differences(const float* x, float largest, int64_t count, float* out) {
  if (count >= 2 * kLanes) return detail::exp_of_many_differences(x, largest, count, out);
  for (int64_t i = 0; i < count; ++i) out[i] = exp_of_nonpositive(x[i] - largest);
}

inline float largest_of(const float* x, int64_t count) {
  int64_t i = 0;
  float largest = std::numeric_limits<float>::lowest();
  if (count >= kLanes) {
    std::array<float, kLanes> lanes;
    lanes.fill(largest);
    for (; i + kLanes <= count; i += kLanes)
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = lanes[lane] < x[i + lane] ? x[i + lane] : lanes[lane];
    for (float value : lanes) largest = std::max(largest, value);
  }
  for (; i < count; ++i) largest = std::max(largest, x[i]);
  return largest;
}

// Sum over i < count of term(i).
template <class Term>
inline float lane_sum(int64_t count, Term term) {
  int64_t i = 0;
  float sum = 0.0f;
  if (count >= kLanes) {
    std::array<float, kLanes> lanes{};
    for (; i + kLanes <= count; i += kLanes)
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
    for (float lane : lanes) sum += lane;
  }
  for (; i < count; ++i) sum += term(i);
  return sum;
}

inline float sum_of(const float* x, int64_t count) {
  return lane_sum(count, [x](int64_t i) { return x[i]; });
}

// Sum of weights[i] * (x[i] - shift); differences that overflow count as the lowest finite number, so that 0 * them is
// 0.
inline float weighted_difference_sum(const float* weights, const float* x, float shift, int64_t count) {
  return lane_sum(count, [=](int64_t i) {
    return weights[i] *
           std::clamp(x[i] - shift, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
  });
}

// NaN * 0 and infinity * 0 are NaN, and a sum that holds NaN stays NaN.
inline bool all_finite(const float* x, int64_t count) {
  return lane_sum(count, [x](int64_t i) { return x[i] * 0.0f; }) == 0.0f;
}

// x = tanh(x), to 2 units in the last place; several times faster than a general math library's.
void tanh_in_place(float* x, int64_t count);

}  // namespace troupe
