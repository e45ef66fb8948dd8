#include "tasks/rational.h"

#include <numeric>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

// Multiplies and adds, and remembers an overflow.
class Checked {
 public:
  int64_t product(int64_t a, int64_t b) {
    int64_t result = 0;
    failed_ |= __builtin_mul_overflow(a, b, &result);
    return result;
  }
  int64_t sum(int64_t a, int64_t b) {
    int64_t result = 0;
    failed_ |= __builtin_add_overflow(a, b, &result);
    return result;
  }
  int64_t negated(int64_t a) { return product(a, -1); }
  bool failed() const { return failed_; }

 private:
  bool failed_ = false;
};

// In lowest terms; both numbers must be above INT64_MIN, whose magnitude does not fit.
Rational reduced(int64_t numerator, int64_t denominator) {
  const int64_t divisor = std::gcd(numerator, denominator);
  return {numerator / divisor, denominator / divisor};
}

}  // namespace

std::optional<Rational> calculate(Rational a, char operation, Rational b) {
  Checked checked;
  int64_t numerator = 0, denominator = 0;
  if (operation == '+' || operation == '-') {
    const int64_t right = operation == '-' ? checked.negated(b.numerator) : b.numerator;
    numerator = checked.sum(checked.product(a.numerator, b.denominator), checked.product(right, a.denominator));
    denominator = checked.product(a.denominator, b.denominator);
  } else if (operation == '*') {
    numerator = checked.product(a.numerator, b.numerator);
    denominator = checked.product(a.denominator, b.denominator);
  } else {
    TROUPE_CHECK(operation == '/', operation);
    if (b.numerator == 0) return std::nullopt;
    const int64_t sign = b.numerator < 0 ? -1 : 1;
    numerator = checked.product(checked.product(a.numerator, b.denominator), sign);
    denominator = checked.product(checked.product(a.denominator, b.numerator), sign);
  }
  if (checked.failed() || numerator == INT64_MIN) return std::nullopt;
  return reduced(numerator, denominator);
}

}  // namespace troupe
