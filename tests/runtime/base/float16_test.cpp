#include "runtime/base/float16.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A second, simple implementation of both formats from sign, exponent and mantissa.
struct Format {
  int exponent_bits, mantissa_bits;
  double value_of(uint16_t bits) const {
    const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
    const int mantissa = bits & ((1 << mantissa_bits) - 1), exponent = bits >> mantissa_bits & top;
    const double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == top) return mantissa == 0 ? sign * kInfinity : std::nan("");
    const double fraction = std::ldexp(mantissa, -mantissa_bits);
    return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0 + fraction, exponent - bias));
  }
  uint16_t infinity() const { return static_cast<uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits); }
};

template <class T>
constexpr Format kFormat{5, 10};
template <>
constexpr Format kFormat<BFloat16>{8, 7};

template <class T>
T rounded(float x);
template <>
Float16 rounded(float x) {
  return to_float16(x);
}
template <>
BFloat16 rounded(float x) {
  return to_bfloat16(x);
}

// Counts errors, so that a mistake does not print 65536 lines.
template <class T>
int wrong_values() {
  int wrong = 0;
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const T x{static_cast<uint16_t>(bits)};
    const double expected = kFormat<T>.value_of(x.bits);
    const float got = to_float(x);
    wrong += std::isnan(expected) ? !std::isnan(got) : got != expected || std::signbit(got) != std::signbit(expected);
    wrong += is_finite(x) != std::isfinite(expected);
  }
  return wrong;
}

template <class T>
int wrong_round_trips() {
  int wrong = 0;
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const T x{static_cast<uint16_t>(bits)}, back = rounded<T>(to_float(x));
    wrong += std::isnan(to_float(x)) ? !std::isnan(to_float(back)) : back.bits != x.bits;
  }
  return wrong;
}

// Checks, for each pair of neighbours, the float32 half-way between them and the two float32 next to it. The upper
// neighbour of the largest number is the next power of two.
template <class T>
int wrong_neighbours(float sign) {
  const auto to_bits = [sign](float x) { return static_cast<uint16_t>(rounded<T>(sign * x).bits & 0x7fffu); };
  int wrong = 0;
  for (uint16_t low = 0; low < kFormat<T>.infinity(); ++low) {
    const uint16_t high = low + 1, even = low % 2 == 0 ? low : high;
    const double below = kFormat<T>.value_of(low);
    const double step = below - (low == 0 ? 0 : kFormat<T>.value_of(low - 1));
    const double above = high == kFormat<T>.infinity() ? below + step : kFormat<T>.value_of(high);
    const auto middle = static_cast<float>(0.5 * (below + above));
    wrong += middle != 0.5 * (below + above);  // exact in float32
    wrong += to_bits(middle) != even;
    wrong += to_bits(std::nextafter(middle, 0.0f)) != low;
    wrong += to_bits(std::nextafter(middle, kInfinity)) != high;
    wrong += std::signbit(to_float(rounded<T>(sign * middle))) != (sign < 0);
  }
  return wrong;
}

// The conversion is monotonic: if it is right for neighbours, it is right for all numbers between them.
template <class T>
int falls() {
  int wrong = 0;
  uint16_t last = 0;
  for (uint64_t bits = 0; bits <= 0x7f800000u; bits += 97) {
    const uint16_t now = rounded<T>(std::bit_cast<float>(static_cast<uint32_t>(bits))).bits;
    wrong += now < last;
    last = now;
  }
  return wrong;
}

}  // namespace

TEST_CASE_TEMPLATE("float16: each of the 65536 numbers has the right value in float32, and converts back to itself", T,
                   Float16, BFloat16) {
  CHECK(wrong_values<T>() == 0);
  CHECK(wrong_round_trips<T>() == 0);
}

TEST_CASE_TEMPLATE("float16: float32 is rounded to the nearest, ties to even, also subnormal numbers", T, Float16,
                   BFloat16) {
  CHECK(wrong_neighbours<T>(1.0f) == 0);
  CHECK(wrong_neighbours<T>(-1.0f) == 0);
  CHECK(falls<T>() == 0);
}

TEST_CASE_TEMPLATE("float16: any NaN stays NaN, infinities stay, and too large numbers become infinity", T, Float16,
                   BFloat16) {
  for (const uint32_t bits : {0x7f800001u, 0x7f801fffu, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu})
    CHECK(std::isnan(to_float(rounded<T>(std::bit_cast<float>(bits)))));
  CHECK(to_float(rounded<T>(kInfinity)) == kInfinity);
  CHECK(to_float(rounded<T>(-kInfinity)) == -kInfinity);
  CHECK(to_float(rounded<T>(std::numeric_limits<float>::max())) == kInfinity);
  CHECK(to_float(rounded<T>(-std::numeric_limits<float>::max())) == -kInfinity);
}

TEST_CASE("float16: known numbers") {
  CHECK(to_float16(1.0f).bits == 0x3c00);
  CHECK(to_float16(-2.0f).bits == 0xc000);
  CHECK(to_float16(65504.0f).bits == 0x7bff);
  CHECK(to_float16(0x1p-24f).bits == 0x0001);
  CHECK(to_float16(0.1f).bits == 0x2e66);
  CHECK(to_bfloat16(1.0f).bits == 0x3f80);
  CHECK(to_bfloat16(3.14159265f).bits == 0x4049);
}
