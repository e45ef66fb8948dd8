#pragma once
// What the kernels of this folder share: fixed-size tiles, select by bit mask and the ratio of probabilities, in a form
// that the compiler turns into vector code. Internal to algorithms/.
//
// Values are selected by masks (all ones or all zeros) and never multiplied by a flag: 0 * NaN is NaN.

#include <bit>
#include <cstdint>
#include <span>

#include "algorithms/common/exp.h"
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

// Log-ratios are clamped to this before the exponential, as verl (github.com/volcengine/verl) and OpenRLHF
// (github.com/OpenRLHF/OpenRLHF) do.
inline constexpr float kMaxLogRatio = 20.0f;

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
