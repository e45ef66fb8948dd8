#include "tasks/arithmetic.h"

namespace troupe {

int64_t draw_number(Rng& rng, int64_t digits) {
  const int64_t low = digits == 1 ? 0 : power_of_ten(digits - 1);
  return low + static_cast<int64_t>(rng.below(static_cast<uint64_t>(power_of_ten(digits) - low)));
}

std::string draw_digits(Rng& rng, int64_t count) {
  std::string digits;
  for (int64_t i = 0; i < count; ++i) digits += static_cast<char>('0' + rng.below(10));
  return digits;
}

int64_t power_of_ten(int64_t exponent) {
  int64_t power = 1;
  for (int64_t i = 0; i < exponent; ++i) power *= 10;
  return power;
}

}  // namespace troupe
