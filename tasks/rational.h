#pragma once
// Exact rational numbers that stop at overflow instead of rounding. Plain values; any thread.

#include <cstdint>
#include <optional>

namespace troupe {

// numerator / denominator in lowest terms, with a denominator above 0.
struct Rational {
  int64_t numerator = 0;
  int64_t denominator = 1;
  friend bool operator==(const Rational&, const Rational&) = default;
};

// The result of `a OPERATION b`; `operation` is + - * or /. nullopt for a division by 0, and if a numerator or a
// denominator of the result, or of what the computation needs on the way, does not fit 64 bits.
std::optional<Rational> calculate(Rational a, char operation, Rational b);

}  // namespace troupe
