#pragma once
// The kernels of LmKernels that work on rows: normalisation, rotary embedding, SwiGLU, softmax. A sum over a row runs
// in 16 lanes by the position in the row, added up by halving, whatever the vector length. Internal to
// models/decoder/kernels/kernels_*.cpp.

#include "algorithms/common/exp.h"
#include "models/decoder/kernels/kernel_table.h"
#include "models/decoder/kernels/lanes.h"

namespace troupe {
namespace {

inline constexpr int64_t kSumLanes = 16;

TROUPE_LM_INLINE float sum_lanes(float* lanes) {
  for (int64_t width = kSumLanes / 2; width > 0; width /= 2)
    for (int64_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}

// Sum over i < count of term(i).
template <class Term>
TROUPE_LM_INLINE float row_sum(int64_t count, Term term) {
  float lanes[kSumLanes] = {};
  int64_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes)
    for (int64_t lane = 0; lane < kSumLanes; ++lane) lanes[lane] += term(i + lane);
  for (int64_t lane = 0; i + lane < count; ++lane) lanes[lane] += term(i + lane);
  return sum_lanes(lanes);
}

TROUPE_LM_INLINE float row_max(const float* x, int64_t count) {
  float lanes[kSumLanes];
  for (float& lane : lanes) lane = x[0];
  int64_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes)
    for (int64_t lane = 0; lane < kSumLanes; ++lane)
      lanes[lane] = lanes[lane] < x[i + lane] ? x[i + lane] : lanes[lane];
  for (; i < count; ++i) lanes[0] = lanes[0] < x[i] ? x[i] : lanes[0];
  for (const float lane : lanes) lanes[0] = lanes[0] < lane ? lane : lanes[0];
  return lanes[0];
}

// exp(x) for x <= 0; 0 below -kExpLimit.
TROUPE_LM_INLINE float exp_negative(float x) {
  const float result = exp_bounded(x < -kExpLimit ? -kExpLimit : x);
  return x < -kExpLimit ? 0.0f : result;
}

TROUPE_LM_INLINE float sigmoid(float x) {
  const float e = exp_negative(x < 0 ? x : -x);
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}

inline void add(const float* x, int64_t count, float* __restrict y) {
  for (int64_t i = 0; i < count; ++i) y[i] += x[i];
}

inline void add_scaled(float a, const float* x, int64_t count, float* __restrict y) {
  const LmVector factor = splat_vector(a);
  int64_t i = 0;
  for (; i + kLmLanes <= count; i += kLmLanes)
    store_vector(y + i, fused(factor, load_vector(x + i), load_vector(y + i)));
  for (; i < count; ++i) y[i] = __builtin_fmaf(a, x[i], y[i]);
}

inline float dot(const float* x, const float* y, int64_t count) {
  return row_sum(count, [=](int64_t i) __attribute__((always_inline)) { return x[i] * y[i]; });
}

inline void rms_apply(const float* x, const float* weight, float inverse, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = weight[i] * (x[i] * inverse);
}

inline float rms_norm(const float* x, const float* weight, float eps, int64_t count, float* y) {
  const float mean = dot(x, x, count) / static_cast<float>(count);
  const float inverse = 1.0f / __builtin_sqrtf(mean + eps);
  rms_apply(x, weight, inverse, count, y);
  return inverse;
}

// With h = x inverse: dx = inverse (dy weight - h mean(dy weight h)).
inline void rms_norm_backward(const float* x, const float* weight, float inverse, const float* dy, int64_t count,
                              bool added, float* dx) {
  const float total =
      row_sum(count, [=](int64_t i) __attribute__((always_inline)) { return dy[i] * weight[i] * (x[i] * inverse); });
  const float mean = total / static_cast<float>(count);
  if (added) {
    for (int64_t i = 0; i < count; ++i) dx[i] += inverse * (dy[i] * weight[i] - x[i] * inverse * mean);
  } else {
    for (int64_t i = 0; i < count; ++i) dx[i] = inverse * (dy[i] * weight[i] - x[i] * inverse * mean);
  }
}

inline void rms_weight_backward(const float* x, float inverse, const float* dy, int64_t count,
                                float* __restrict d_weight) {
  for (int64_t i = 0; i < count; ++i) d_weight[i] += dy[i] * (x[i] * inverse);
}

inline void rotate(const float* cos, const float* sin, int64_t half, bool backward, float* __restrict x) {
  const float sign = backward ? -1.0f : 1.0f;
  for (int64_t i = 0; i < half; ++i) {
    const float low = x[i], high = x[i + half], s = sign * sin[i];
    x[i] = low * cos[i] - high * s;
    x[i + half] = high * cos[i] + low * s;
  }
}

inline void swiglu(const float* gate, const float* up, int64_t count, float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) out[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

inline void swiglu_backward(const float* gate, const float* up, const float* d_out, int64_t count,
                            float* __restrict d_gate, float* __restrict d_up) {
  for (int64_t i = 0; i < count; ++i) {
    const float g = gate[i], s = sigmoid(g), d = d_out[i];
    d_up[i] = d * (g * s);
    d_gate[i] = d * up[i] * (s * (1.0f + g * (1.0f - s)));
  }
}

inline void exp_scores(float* scores, int64_t count, float* max, float* sum) {
  const float largest = row_max(scores, count);
  for (int64_t i = 0; i < count; ++i) scores[i] = exp_negative(scores[i] - largest);
  *max = largest;
  *sum = row_sum(count, [=](int64_t i) __attribute__((always_inline)) { return scores[i]; });
}

inline void probabilities(const float* scores, float max, float inverse_sum, int64_t count, float* p) {
  for (int64_t i = 0; i < count; ++i) p[i] = exp_negative(scores[i] - max) * inverse_sum;
}

inline void scale(const float* x, float factor, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = x[i] * factor;
}

inline void softmax_backward(const float* p, const float* dp, float shift, float factor, int64_t count,
                             float* d_scores) {
  for (int64_t i = 0; i < count; ++i) d_scores[i] = p[i] * (dp[i] - shift) * factor;
}

}  // namespace
}  // namespace troupe
