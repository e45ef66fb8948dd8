#pragma once
// Vectors of kLanes floats for the scan kernels: 4, 8 or 16, depending on the instruction set of the compilation.
// Everything is local to the including file, because the same names mean different code in each. Internal to
// algorithms/scan/scan_*.cpp.

#include <cstdint>
#include <utility>

#include "algorithms/common/exp.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifndef TROUPE_SCAN_LANES
#define TROUPE_SCAN_LANES 4  // available on every x86-64
#endif

#define TROUPE_INLINE inline __attribute__((always_inline))

namespace troupe {
namespace {

inline constexpr int kLanes = TROUPE_SCAN_LANES;
using F = float __attribute__((vector_size(4 * TROUPE_SCAN_LANES)));
using M = int32_t __attribute__((vector_size(4 * TROUPE_SCAN_LANES)));  // a mask: each element is all ones or all zeros

#define TROUPE_INLINE_LAMBDA __attribute__((always_inline))

// Calls visit(N - 1), ..., visit(0) with compile-time constants: a loop over an array would keep the array in memory.
template <class Visit, int... I>
TROUPE_INLINE void each_downward(std::integer_sequence<int, I...>, Visit visit) {
  (visit(std::integral_constant<int, sizeof...(I) - 1 - I>()), ...);
}
template <int N, class Visit>
TROUPE_INLINE void each_downward(Visit visit) {
  each_downward(std::make_integer_sequence<int, N>(), visit);
}

TROUPE_INLINE F load(const float* p) {
  F x;
  __builtin_memcpy(&x, p, sizeof(x));
  return x;
}
TROUPE_INLINE M load(const int32_t* p) {
  M x;
  __builtin_memcpy(&x, p, sizeof(x));
  return x;
}
TROUPE_INLINE void store(float* p, F x) { __builtin_memcpy(p, &x, sizeof(x)); }

// A store that bypasses the caches; p is aligned to a vector.
TROUPE_INLINE void stream(float* p, F x) {
#if TROUPE_SCAN_LANES == 16
  _mm512_stream_ps(p, reinterpret_cast<__m512>(x));
#elif TROUPE_SCAN_LANES == 8
  _mm256_stream_ps(p, reinterpret_cast<__m256>(x));
#elif defined(__x86_64__)
  _mm_stream_ps(p, reinterpret_cast<__m128>(x));
#else
  store(p, x);
#endif
}

template <bool kStream>
TROUPE_INLINE void put(float* p, F x) {
  if constexpr (kStream) {
    stream(p, x);
  } else {
    store(p, x);
  }
}

// While it exists, numbers below 1.2e-38 count as 0. Otherwise a sum that decays over many steps would become a hundred
// times slower when it gets that small.
class FlushDenormals {
 public:
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
#if defined(__x86_64__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#else
  FlushDenormals() = default;
  ~FlushDenormals() = default;
#endif
};

// Makes streamed stores visible to later code.
TROUPE_INLINE void end_stream() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

template <int... I>
TROUPE_INLINE F splat(float x, std::integer_sequence<int, I...>) {
  return F{(static_cast<void>(I), x)...};
}
TROUPE_INLINE F splat(float x) { return splat(x, std::make_integer_sequence<int, kLanes>()); }

template <int K, class V, int... I>
TROUPE_INLINE V shift(V x, V above, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(x, above, (I + K)...);
}
// Lane i becomes lane i + K, that is, K steps later; `above` supplies the lanes beyond the last.
template <int K, class V>
TROUPE_INLINE V shift(V x, V above) {
#if TROUPE_SCAN_LANES == 4
  if constexpr (K == 1) {  // in two steps, because g++ 12 splits a single shuffle badly
    const V joined = __builtin_shufflevector(x, above, 4, 1, 2, 3);
    return __builtin_shufflevector(joined, joined, 1, 2, 3, 0);
  }
#endif
#if TROUPE_SCAN_LANES == 16
  return reinterpret_cast<V>(
      _mm512_maskz_alignr_epi32(0xffff, reinterpret_cast<__m512i>(above), reinterpret_cast<__m512i>(x), K));
#else
  return shift<K>(x, above, std::make_integer_sequence<int, kLanes>());
#endif
}
// The same, but lanes beyond the last are 0.
template <int K, class V>
TROUPE_INLINE V shift(V x) {
#if TROUPE_SCAN_LANES == 16
  const auto bits = reinterpret_cast<__m512i>(x);
  return reinterpret_cast<V>(_mm512_maskz_alignr_epi32(0xffff >> K, bits, bits, K));
#elif TROUPE_SCAN_LANES == 4 && defined(__x86_64__)
  return reinterpret_cast<V>(_mm_srli_si128(reinterpret_cast<__m128i>(x), 4 * K));
#else
  return shift<K>(x, V{}, std::make_integer_sequence<int, kLanes>());
#endif
}

#if TROUPE_SCAN_LANES == 8
// Shuffles that cross the halves of a vector cost two instructions. These stay within each half and cost one.
template <int K>
TROUPE_INLINE F shift_halves(F x) {
  return reinterpret_cast<F>(_mm256_srli_si256(reinterpret_cast<__m256i>(x), 4 * K));
}
// The same, but lanes beyond the last are 1.
template <int K>
TROUPE_INLINE F shift_halves_ones(F x) {
  constexpr M kOnes = K == 1 ? M{0, 0, 0, 0x3f800000, 0, 0, 0, 0x3f800000}
                             : M{0, 0, 0x3f800000, 0x3f800000, 0, 0, 0x3f800000, 0x3f800000};
  return reinterpret_cast<F>(reinterpret_cast<M>(shift_halves<K>(x)) | kOnes);
}
// The lower half gets the first lane of the upper half; the upper half gets zeros or ones.
TROUPE_INLINE F lower_from_upper(F x) {
  const __m256 upper = _mm256_permute2f128_ps(reinterpret_cast<__m256>(x), reinterpret_cast<__m256>(x), 0x81);
  return reinterpret_cast<F>(_mm256_permute_ps(upper, 0));
}
TROUPE_INLINE F lower_from_upper_ones(F x) {
  const __m256 upper = _mm256_permute2f128_ps(reinterpret_cast<__m256>(x), _mm256_set1_ps(1.0f), 0x21);
  return reinterpret_cast<F>(_mm256_permute_ps(upper, 0));
}
#else
// shift(), but lanes beyond the last are 1.
template <int K>
TROUPE_INLINE F shift_ones(F x) {
#if TROUPE_SCAN_LANES == 16
  return shift<K>(x, splat(1.0f));
#else
  constexpr M kOnes = K == 1 ? M{0, 0, 0, 0x3f800000} : M{0, 0, 0x3f800000, 0x3f800000};
  return reinterpret_cast<F>(reinterpret_cast<M>(shift<K>(x)) | kOnes);
#endif
}
#endif

TROUPE_INLINE bool any_zero(F x) {
#if TROUPE_SCAN_LANES == 16
  return _mm512_cmp_ps_mask(reinterpret_cast<__m512>(x), __m512{}, _CMP_EQ_OQ) != 0;
#elif TROUPE_SCAN_LANES == 8
  return _mm256_movemask_ps(reinterpret_cast<__m256>(x == 0.0f)) != 0;
#elif defined(__x86_64__)
  return _mm_movemask_ps(reinterpret_cast<__m128>(x == 0.0f)) != 0;
#else
  const M zero = x == 0.0f;
  return (zero[0] | zero[1] | zero[2] | zero[3]) != 0;
#endif
}

// Copies fewer than 64 bytes without a function call.
TROUPE_INLINE void copy_some(void* to, const void* from, int bytes) {
  auto* t = static_cast<char*>(to);
  const auto* f = static_cast<const char*>(from);
  const auto piece = [&](auto size) {
    if (!(bytes & size)) return;
    __builtin_memcpy(t, f, size);
    t += size;
    f += size;
  };
  piece(std::integral_constant<int, 32>());
  piece(std::integral_constant<int, 16>());
  piece(std::integral_constant<int, 8>());
  piece(std::integral_constant<int, 4>());
  piece(std::integral_constant<int, 2>());
  piece(std::integral_constant<int, 1>());
}

// Keeps the compiler from moving operations on these vectors across this point; g++ 12 would process
// one vector after the other.
template <int N>
TROUPE_INLINE void keep_order(F (&x)[N]) {
#if defined(__x86_64__)
  if constexpr (N > 1)
    for (F& each : x) asm volatile("" : "+v"(each));
#endif
}

// a * b + c, rounded once if the instruction set supports it.
TROUPE_INLINE F fused(F a, F b, F c) {
#if TROUPE_SCAN_LANES == 16
  return reinterpret_cast<F>(
      _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
#elif TROUPE_SCAN_LANES == 8
  return reinterpret_cast<F>(
      _mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#else
  return a * b + c;
#endif
}
TROUPE_INLINE float fused(float a, float b, float c) {
#if TROUPE_SCAN_LANES > 4
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

// NaN stays NaN: if two numbers cannot be ordered, the instructions return the second.
TROUPE_INLINE F clamped(F x, F low, F high) {
#if TROUPE_SCAN_LANES == 16
  const __m512 floored = _mm512_maskz_max_ps(0xffff, reinterpret_cast<__m512>(low), reinterpret_cast<__m512>(x));
  return reinterpret_cast<F>(_mm512_maskz_min_ps(0xffff, reinterpret_cast<__m512>(high), floored));
#elif TROUPE_SCAN_LANES == 8
  const __m256 floored = _mm256_max_ps(reinterpret_cast<__m256>(low), reinterpret_cast<__m256>(x));
  return reinterpret_cast<F>(_mm256_min_ps(reinterpret_cast<__m256>(high), floored));
#elif defined(__x86_64__)
  const __m128 floored = _mm_max_ps(reinterpret_cast<__m128>(low), reinterpret_cast<__m128>(x));
  return reinterpret_cast<F>(_mm_min_ps(reinterpret_cast<__m128>(high), floored));
#else
  x = low > x ? low : x;
  return high < x ? high : x;
#endif
}

// exp of log-ratios clamped to +-20, relative error below 2e-7, NaN stays NaN: the steps of ratio_of() in tile.h, for
// all N vectors side by side.
template <class Lane, int N>
TROUPE_INLINE void vector_ratios(F (&x)[N]) {
  const F lowest = splat(-20.0f), highest = splat(20.0f);
  F shifted[N], p[N];
  each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA { x[j] = clamped(x[j], lowest, highest); });
  each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA { shifted[j] = exp_steps::shifted_n<Lane>(x[j]); });
  keep_order(shifted);
  each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA { x[j] = exp_steps::remainder<Lane>(x[j], shifted[j]); });
  keep_order(x);
  each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA { p[j] = exp_steps::first_terms<Lane>(x[j]); });
  const auto add_term = [&](int term) TROUPE_INLINE_LAMBDA {
    keep_order(p);
    each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA { p[j] = exp_steps::next_term<Lane>(p[j], x[j], term); });
  };
  add_term(2);
  add_term(3);
  add_term(4);
  add_term(5);
  keep_order(p);
  each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA { x[j] = exp_steps::result<Lane>(p[j], x[j], shifted[j]); });
}

struct VectorLane {
  using F = troupe::F;
  TROUPE_INLINE static F splat(float x) { return troupe::splat(x); }
  // 2^n, like exp_steps::Scalar::power.
  TROUPE_INLINE static F power(F shifted) { return reinterpret_cast<F>((reinterpret_cast<M>(shifted) + 127) << 23); }
};
// Lane types for the rules. RowLane is for rows, where the order of operations depends on the vector's length anyway;
// ColumnLane is for columns, where results must not depend on the instruction set.
struct RowLane : VectorLane {
  TROUPE_INLINE static F multiply_add(F a, F b, F c) { return fused(a, b, c); }
  template <int N>
  TROUPE_INLINE static void ratios(F (&log_rho)[N]) {
    vector_ratios<RowLane>(log_rho);
  }
};
struct ColumnLane : VectorLane {
  TROUPE_INLINE static F multiply_add(F a, F b, F c) { return a * b + c; }
  template <int N>
  TROUPE_INLINE static void ratios(F (&log_rho)[N]) {
    vector_ratios<ColumnLane>(log_rho);
  }
};

}  // namespace
}  // namespace troupe
