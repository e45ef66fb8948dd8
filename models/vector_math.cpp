#include "models/vector_math.h"

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

using InPlace = void (*)(float*, int64_t);

void tanh_plain(float* x, int64_t count) { tanh_loop(x, count); }

// The same loop for wider vector units. Picked when first called, not by the loader (ifunc), which sanitizers do not survive.
#if defined(__x86_64__) && defined(__GNUC__)
[[gnu::target("avx2")]] void tanh_avx2(float* x, int64_t count) { tanh_loop(x, count); }
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512")]] void tanh_avx512(float* x, int64_t count) {
  tanh_loop(x, count);
}

InPlace best_tanh() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return tanh_avx512;
  return __builtin_cpu_supports("avx2") ? tanh_avx2 : tanh_plain;
}
#else
InPlace best_tanh() { return tanh_plain; }
#endif

}  // namespace

void tanh_in_place(float* x, int64_t count) {
  static const InPlace function = best_tanh();
  function(x, count);
}

}  // namespace troupe
