#pragma once
// Vectors of kLmLanes floats for the kernels of models/lm: 4, 8 or 16, depending on the instruction set of the
// compilation. Everything is local to the including file, because the same names mean different code in each. Internal
// to models/decoder/kernels/kernels_*.cpp.

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifndef TROUPE_LM_LANES
#define TROUPE_LM_LANES 4  // available on every processor
#endif

#define TROUPE_LM_INLINE inline __attribute__((always_inline))

namespace troupe {
namespace {

inline constexpr int kLmLanes = TROUPE_LM_LANES;
using LmVector = float __attribute__((vector_size(4 * TROUPE_LM_LANES)));

TROUPE_LM_INLINE LmVector load_vector(const float* p) {
  LmVector x;
  __builtin_memcpy(&x, p, sizeof(x));
  return x;
}
TROUPE_LM_INLINE void store_vector(float* p, LmVector x) { __builtin_memcpy(p, &x, sizeof(x)); }

#if TROUPE_LM_LANES == 16 && defined(__AVX512F__)
TROUPE_LM_INLINE LmVector splat_vector(float x) { return reinterpret_cast<LmVector>(_mm512_set1_ps(x)); }
// a * b + c, rounded once.
TROUPE_LM_INLINE LmVector fused(LmVector a, LmVector b, LmVector c) {
  return reinterpret_cast<LmVector>(
      _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
}
#elif TROUPE_LM_LANES == 8
TROUPE_LM_INLINE LmVector splat_vector(float x) { return reinterpret_cast<LmVector>(_mm256_set1_ps(x)); }
TROUPE_LM_INLINE LmVector fused(LmVector a, LmVector b, LmVector c) {
  return reinterpret_cast<LmVector>(
      _mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
}
#else
TROUPE_LM_INLINE LmVector splat_vector(float x) {
  LmVector result;
  for (int i = 0; i < kLmLanes; ++i) result[i] = x;
  return result;
}
TROUPE_LM_INLINE LmVector fused(LmVector a, LmVector b, LmVector c) {
  for (int i = 0; i < kLmLanes; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
}
#endif

}  // namespace
}  // namespace troupe
