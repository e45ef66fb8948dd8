#include "models/heads/vector_math.h"

#include <cmath>

namespace troupe {

namespace {

// Odd polynomial below 0.625 (coefficients of Cephes tanhf), (1 - e) / (1 + e) with e = exp(-2 |x|) above.
[[gnu::always_inline]] inline float tanh_of(float x) {
  const float magnitude = std::fabs(x), square = x * x;
  float p = -5.70498872745e-3f;
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const float small = p * square * x + x;
  const float e = exp_of_nonpositive(-2.0f * magnitude);
  const float large = std::copysign((1.0f - e) / (1.0f + e), x);
  return magnitude < 0.625f ? small : large;
}

[[gnu::always_inline]] inline void tanh_loop(float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = tanh_of(x[i]);
}

[[gnu::always_inline]] inline void exp_loop(const float* x, float largest, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = exp_of_nonpositive(x[i] - largest);
}

// The loops, compiled for one instruction set.
struct Loops {
  void (*tanh)(float*, int64_t);
  void (*exp)(const float*, float, int64_t, float*);
};

void tanh_plain(float* x, int64_t count) { tanh_loop(x, count); }
void exp_plain(const float* x, float largest, int64_t count, float* out) { exp_loop(x, largest, count, out); }

#if defined(__x86_64__) && defined(__GNUC__)
#define TROUPE_AVX2 [[gnu::target("avx2")]]
#define TROUPE_AVX512 [[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512")]]

TROUPE_AVX2 void tanh_avx2(float* x, int64_t count) { tanh_loop(x, count); }
TROUPE_AVX2 void exp_avx2(const float* x, float largest, int64_t count, float* out) {
  exp_loop(x, largest, count, out);
}
TROUPE_AVX512 void tanh_avx512(float* x, int64_t count) { tanh_loop(x, count); }
TROUPE_AVX512 void exp_avx512(const float* x, float largest, int64_t count, float* out) {
  exp_loop(x, largest, count, out);
}

Loops best_loops() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return {tanh_avx512, exp_avx512};
  if (__builtin_cpu_supports("avx2")) return {tanh_avx2, exp_avx2};
  return {tanh_plain, exp_plain};
}
#else
Loops best_loops() { return {tanh_plain, exp_plain}; }
#endif

// Chosen at the first use, not by the loader (ifunc), which crashes under sanitizers.
const Loops& loops() {
  static const Loops result = best_loops();
  return result;
}

}  // namespace

void tanh_in_place(float* x, int64_t count) { loops().tanh(x, count); }

namespace detail {
void exp_of_many_differences(const float* x, float largest, int64_t count, float* out) {
  loops().exp(x, largest, count, out);
}
}  // namespace detail

}  // namespace troupe
