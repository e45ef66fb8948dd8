#pragma once
// Shared by the kernels of this folder: fixed-size tiles, selection by bit mask and the probability ratio, in a form
// that the compiler vectorizes. Internal to algorithms/.
//
// Values are selected with bit masks (all ones or all zeros) instead of being multiplied by a
// flag, because 0 * NaN is NaN.

#include <bit>
#include <cstdint>
#include <span>

#include "algorithms/common/exp.h"
#include "runtime/base/errors.h"

namespace troupe {

// Elements processed at once; a loop of this constant length over local arrays vectorizes completely.
inline constexpr int64_t kTile = 64;

inline float select(uint32_t mask, float x) { return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & mask); }
inline float select(uint32_t mask, float yes, float no) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(yes) & mask) | (std::bit_cast<uint32_t>(no) & ~mask));
}
inline uint32_t mask_of(bool condition) { return 0u - static_cast<uint32_t>(condition); }

// Clamps; NaN stays NaN.
inline float clamp_keep_nan(float x, float low, float high) {
  const float floored = x < low ? low : x;
  return floored > high ? high : floored;
}

// Log-ratios are clamped to +-kMaxLogRatio before exp(), as in verl (github.com/volcengine/verl) and OpenRLHF
// (github.com/OpenRLHF/OpenRLHF).
inline constexpr float kMaxLogRatio = 20.0f;

inline float ratio_of(float log_ratio) { return exp_bounded(clamp_keep_nan(log_ratio, -kMaxLogRatio, kMaxLogRatio)); }

// Whether a mask or array of flags fits n elements: one per element, or empty.
inline bool fits_or_empty(std::span<const uint8_t> flags, std::size_t n) { return flags.empty() || flags.size() == n; }

// Calls body(first, count) for consecutive tiles of [0, n). For full tiles, count is a compile-time constant.
template <class Body>
inline void for_each_tile(int64_t n, Body&& body) {
  int64_t first = 0;
  for (; first + kTile <= n; first += kTile) body(first, std::integral_constant<int64_t, kTile>{});
  if (first < n) body(first, n - first);
}

// The same from the last tile to the first. If body also walks its tile backward, memory is accessed strictly downward.
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
