#include "tasks/expression.h"

#include <string>

#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using Numbers = std::vector<int64_t>;

std::optional<Rational> value_of(std::string_view text) {
  const auto expression = evaluate_expression(text);
  if (!expression) return std::nullopt;
  return expression->value;
}

// A random expression with its value by double arithmetic, and parentheses around every part.
struct Sample {
  std::string text;
  double value;
};

Sample sample(Rng& rng, int depth) {
  if (depth == 0 || rng.below(4) == 0) {
    const uint64_t number = rng.below(20);
    return {std::to_string(number), static_cast<double>(number)};
  }
  const Sample a = sample(rng, depth - 1), b = sample(rng, depth - 1);
  const char operation = "+-*/"[rng.below(4)];
  const double value = operation == '+'   ? a.value + b.value
                       : operation == '-' ? a.value - b.value
                       : operation == '*' ? a.value * b.value
                                          : a.value / b.value;
  return {'(' + a.text + ')' + operation + ' ' + '(' + b.text + ')', value};
}

}  // namespace

TEST_CASE("expression: precedence, order and parentheses") {
  CHECK(value_of("7") == Rational{7, 1});
  CHECK(value_of("1+2*3") == Rational{7, 1});
  CHECK(value_of("(1+2)*3") == Rational{9, 1});
  CHECK(value_of("10-4-3") == Rational{3, 1});
  CHECK(value_of("16/4/2") == Rational{2, 1});
  CHECK(value_of("10-(4-3)") == Rational{9, 1});
  CHECK(value_of(" ( ( 8 ) / 3 ) * 3 ") == Rational{8, 1});
  CHECK(value_of("1/3+1/6") == Rational{1, 2});
  CHECK(evaluate_expression("4*(25-3)+25")->numbers == Numbers{4, 25, 3, 25});
}

TEST_CASE("expression: other texts are refused") {
  for (const char* text : {"",      " ",    "+",      "1+",  "+1",   "-1", "1--1", "()",      "(1",      "1)",  "(1))",
                           "1 2",   "1(2)", "(1)(2)", "1.5", "1e3",  "a",  "1+a",  "1**2",    "1//2",    "1^2", "1%2",
                           "2*(3+", "1,2",  "1\t+2",  "1=1", "\xff", "１", "1/0",  "1/(2-2)", "(1+2)*3;"})
    CHECK_MESSAGE(!value_of(text).has_value(), text);
  CHECK_FALSE(value_of(std::string_view("1+2\0", 4)).has_value());
  CHECK_FALSE(value_of(std::string_view("\0", 1)).has_value());
}

TEST_CASE("expression: length, depth, digits and values are limited") {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '(') + '1' + std::string(static_cast<size_t>(depth), ')');
  };
  CHECK(value_of(nested(kMaxExpressionDepth)) == Rational{1, 1});
  CHECK_FALSE(value_of(nested(kMaxExpressionDepth + 1)).has_value());
  CHECK(value_of(std::string(kMaxExpressionBytes - 1, ' ') + '1') == Rational{1, 1});
  CHECK_FALSE(value_of(std::string(kMaxExpressionBytes, ' ') + '1').has_value());
  CHECK(value_of("999999999999999999") == Rational{999'999'999'999'999'999, 1});
  CHECK_FALSE(value_of("1000000000000000000").has_value());
  CHECK_FALSE(value_of("999999999999999999*999999999999999999").has_value());
}

TEST_CASE("expression: random expressions have the value of double arithmetic") {
  Rng rng(21);
  int compared = 0;
  for (int i = 0; i < 5000; ++i) {
    const Sample expected = sample(rng, 3);
    const auto value = value_of(expected.text);
    if (!value) continue;  // a division by 0 or an overflow
    const double found = static_cast<double>(value->numerator) / static_cast<double>(value->denominator);
    REQUIRE(found == doctest::Approx(expected.value).epsilon(1e-9));
    ++compared;
  }
  CHECK(compared > 4000);
}

TEST_CASE("expression: random texts are read or refused, and what is read is in lowest terms") {
  Rng rng(22);
  const std::string characters = "0123456789+-*/() \t.=a\xff";
  int read = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    // Most texts consist of what expressions consist of.
    const size_t choices = rng.below(4) == 0 ? characters.size() : 17;
    for (uint64_t length = rng.below(24); length > 0; --length) text += characters[rng.below(choices)];
    const auto expression = evaluate_expression(text);
    if (!expression) continue;
    ++read;
    REQUIRE(expression->value.denominator > 0);
    REQUIRE_FALSE(expression->numbers.empty());
    REQUIRE(text.find_first_not_of("0123456789+-*/() ") == std::string::npos);
  }
  CHECK(read > 1000);
}
