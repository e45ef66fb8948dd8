#pragma once
// Arithmetic expressions in answers of models. Pure functions; any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tasks/rational.h"

namespace troupe {

// Longer or deeper expressions are refused, so that reading one takes little time and stack.
inline constexpr size_t kMaxExpressionBytes = 512;
inline constexpr int kMaxExpressionDepth = 32;

struct Expression {
  Rational value;
  std::vector<int64_t> numbers;  // in the order of the text
};

// The value and the numbers of an expression of whole numbers without sign (at most 18 digits), + - * /, parentheses
// and spaces. * and / come before + and -, equal operators go from left to right. nullopt for any other text, for a
// division by 0, for a value that calculate() cannot represent, and beyond the limits above.
std::optional<Expression> evaluate_expression(std::string_view text);

}  // namespace troupe
