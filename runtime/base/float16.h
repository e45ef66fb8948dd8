#pragma once
// Float16 and BFloat16: the two floating-point formats of 16 bits, as bits. The conversion to float32 is exact; the one
// from float32 rounds. They are for storage; computations use float32. Pure functions; any thread.

#include <bit>
#include <cstdint>

namespace troupe {

// IEEE 754 binary16: 5 bits of exponent, 10 of mantissa. Largest finite number 65504, smallest above 0 2^-24.
struct Float16 {
  uint16_t bits;
};

// The upper half of a float32: 8 bits of exponent, 7 of mantissa.
struct BFloat16 {
  uint16_t bits;
};

// The same number in float32, which can represent all of them; NaN stays NaN.
[[gnu::always_inline]] inline float to_float(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }
inline float to_float(Float16 x) {
  const uint32_t sign = (x.bits & 0x8000u) << 16, magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u)
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);  // infinity, NaN
  if (magnitude >= 0x400u) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;  // 0 too
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(subnormal));
}

// The nearest number of the format; of two equally near ones, that with an even mantissa; infinity beyond the largest.
// NaN becomes a quiet NaN. to_bfloat16() has no branches, so that loops vectorise.
[[gnu::always_inline]] inline BFloat16 to_bfloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const uint32_t nan = 0u - static_cast<uint32_t>((bits & 0x7fffffffu) > 0x7f800000u);  // all ones or all zeros
  return {static_cast<uint16_t>((rounded & ~nan) | (nan & 0x7fc0u))};
}
inline Float16 to_float16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  const auto with_sign = [sign](uint32_t rest) { return Float16{static_cast<uint16_t>(sign | rest)}; };
  if (magnitude > 0x7f800000u) return with_sign(0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return with_sign(0x7c00u);  // from 65520 on, half-way between 65504 and the next step
  if (magnitude >= 0x38800000u)                             // from 2^-14 on: normal
    return with_sign((magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
  // Subnormal: neighbours of 0.5 are 2^-24 apart above it, as these numbers are, so the sum rounds as wanted.
  return with_sign(std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f));
}

[[gnu::always_inline]] inline bool is_finite(BFloat16 x) { return (x.bits & 0x7f80u) != 0x7f80u; }
[[gnu::always_inline]] inline bool is_finite(Float16 x) { return (x.bits & 0x7c00u) != 0x7c00u; }

}  // namespace troupe
