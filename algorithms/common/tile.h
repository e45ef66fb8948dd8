#pragma once
// What the kernels of this folder share: fixed-size tiles, select by bit mask and an exponential, in a form that the
// compiler turns into vector code. Internal to algorithms/.
//
// Values are selected by masks (all ones or all zeros) and never multiplied by a flag: 0 * NaN is NaN.

#include <bit>
#include <cstdint>
#include <span>

#include "runtime/base/errors.h"

namespace troupe {

// Elements handled at once; a loop of this constant length over local arrays vectorises whole.
inline constexpr int64_t kTile = 64;

inline float select(uint32_t mask, float x) { return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & mask); }
inline float select(uint32_t mask, float yes, float no) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(yes) & mask) | (std::bit_cast<uint32_t>(no) & ~mask));
}
inline uint32_t mask_of(bool condition) { return 0u - static_cast<uint32_t>(condition); }

// Keeps NaN.
inline float clamp_keep_nan(float x, float low, float high) {
  const float floored = x < low ? low : x;
  return floored > high ? high : floored;
}

// Log-ratios are clamped to this before the exponential, as verl and OpenRLHF do.
inline constexpr float kMaxLogRatio = 20.0f;

// Where exp_bounded() and float32 end.
inline constexpr float kExpLimit = 87.0f;

// exp(x) for |x| <= 87, relative error below 2e-7; NaN gives NaN. x = n ln2 + f with |f| <= ln2 / 2, a polynomial for
// exp(f) (Cephes expf coefficients) and n put into the exponent.
inline float exp_bounded(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the rounded integer in the low mantissa bits
  const float shifted = x * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  const float f = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  p = p * f * f + f + 1.0f;
  const uint32_t scale = (std::bit_cast<uint32_t>(shifted) + 127u) << 23;  // only the low 9 bits of the sum survive
  return p * std::bit_cast<float>(scale);
}

inline float ratio_of(float log_ratio) { return exp_bounded(clamp_keep_nan(log_ratio, -kMaxLogRatio, kMaxLogRatio)); }

// Whether a mask or a set of flags may be used with n elements: one each, or none at all.
inline bool fits_or_empty(std::span<const uint8_t> flags, std::size_t n) { return flags.empty() || flags.size() == n; }

// Calls body(first, count) over [0, n) in tiles; the full ones with a count that the compiler knows.
template <class Body>
inline void for_each_tile(int64_t n, Body&& body) {
  int64_t first = 0;
  for (; first + kTile <= n; first += kTile) body(first, std::integral_constant<int64_t, kTile>{});
  if (first < n) body(first, n - first);
}

// The same from the last tile to the first. Within it too, memory is then walked downward throughout when rows are.
template <class Body>
inline void for_each_tile_backward(int64_t n, Body&& body) {
  int64_t first = n - n % kTile;
  if (first < n) body(first, n - first);
  while (first > 0) {
    first -= kTile;
    body(first, std::integral_constant<int64_t, kTile>{});
  }
}

}  // namespace troupe
