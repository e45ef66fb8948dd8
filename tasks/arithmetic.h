#pragma once
// Numbers that several tasks draw. Pure functions; any thread.

#include <cstdint>
#include <string>

#include "runtime/base/rng.h"

namespace troupe {

inline constexpr const char* kDigits = "0123456789";

// Uniform among the whole numbers with exactly so many digits (1 to 18); 0 to 9 for one digit.
int64_t draw_number(Rng& rng, int64_t digits);

// So many digits, each uniform in 0 to 9.
std::string draw_digits(Rng& rng, int64_t count);

// 10 to the power of `exponent` (0 to 18).
int64_t power_of_ten(int64_t exponent);

}  // namespace troupe
