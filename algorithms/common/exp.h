#pragma once
// exp() of float32 with multiplications and additions only, in a form that the compiler vectorizes: x = n ln2 + f, |f|
// <= ln2 / 2, a polynomial for exp(f) (coefficients of Cephes expf), and n written into the exponent. It is split into
// steps so that kernels can interleave several vectors; other code calls exp_bounded(). Pure functions; any thread.

#include <bit>
#include <cstdint>

namespace troupe {

// Largest |x| that exp_bounded() accepts; exp(x) leaves the range of normal float32 numbers shortly beyond it.
inline constexpr float kExpLimit = 87.0f;

namespace exp_steps {

inline constexpr float kLog2E = 1.44269504088896341f;
inline constexpr float kRound =
    12582912.0f;  // 1.5 * 2^23: adding it leaves the rounded integer in the low mantissa bits
inline constexpr float kLn2High = 0.693359375f, kLn2Low = 2.12194440e-4f;  // ln2 = high - low, and n * high is exact
inline constexpr float kPolynomial[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                        4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};

// Ops for one number at a time. Another Ops provides the same functions for its vector type F; its multiply_add may
// round only once.
struct Scalar {
  [[gnu::always_inline]] static float splat(float x) { return x; }
  // a * b + c
  [[gnu::always_inline]] static float multiply_add(float a, float b, float c) { return a * b + c; }
  // 2^n of a shifted n: only the low 9 bits of the sum survive.
  [[gnu::always_inline]] static float power(float shifted) {
    return std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127u) << 23);
  }
};

// n + kRound.
template <class Ops, class F>
[[gnu::always_inline]] inline F shifted_n(F x) {
  return Ops::multiply_add(x, Ops::splat(kLog2E), Ops::splat(kRound));
}
// f = x - n ln2.
template <class Ops, class F>
[[gnu::always_inline]] inline F remainder(F x, F shifted) {
  const F n = shifted - kRound;
  return Ops::multiply_add(n, Ops::splat(kLn2Low), x - n * kLn2High);
}
// The polynomial p by Horner's rule: first_terms() for the first two terms, then next_term() for terms 2 to
// 5. exp(f) = p f^2 + f + 1.
template <class Ops, class F>
[[gnu::always_inline]] inline F first_terms(F f) {
  return Ops::multiply_add(f, Ops::splat(kPolynomial[0]), Ops::splat(kPolynomial[1]));
}
template <class Ops, class F>
[[gnu::always_inline]] inline F next_term(F p, F f, int term) {
  return Ops::multiply_add(p, f, Ops::splat(kPolynomial[term]));
}
// exp(x).
template <class Ops, class F>
[[gnu::always_inline]] inline F result(F p, F f, F shifted) {
  return (Ops::multiply_add(p * f, f, f) + 1.0f) * Ops::power(shifted);
}

}  // namespace exp_steps

// The intermediate results of exp(x), which is exp_steps::result(p, f, shifted).
struct ExpParts {
  float p, f, shifted;
};
[[gnu::always_inline]] inline ExpParts exp_parts(float x) {
  using exp_steps::next_term, exp_steps::Scalar;
  const float shifted = exp_steps::shifted_n<Scalar>(x);
  const float f = exp_steps::remainder<Scalar>(x, shifted);
  float p = exp_steps::first_terms<Scalar>(f);
  p = next_term<Scalar>(p, f, 2);
  p = next_term<Scalar>(p, f, 3);
  p = next_term<Scalar>(p, f, 4);
  p = next_term<Scalar>(p, f, 5);
  return {p, f, shifted};
}

// exp(x) for |x| <= kExpLimit, relative error below 2e-7; NaN gives NaN.
[[gnu::always_inline]] inline float exp_bounded(float x) {
  const ExpParts e = exp_parts(x);
  return exp_steps::result<exp_steps::Scalar>(e.p, e.f, e.shifted);
}

}  // namespace troupe
