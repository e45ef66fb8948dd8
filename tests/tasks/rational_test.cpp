#include "tasks/rational.h"

#include <cstdint>

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("rational: results are exact and in lowest terms") {
  CHECK(calculate({1, 2}, '+', {1, 3}) == Rational{5, 6});
  CHECK(calculate({1, 2}, '-', {1, 2}) == Rational{0, 1});
  CHECK(calculate({2, 3}, '*', {3, 4}) == Rational{1, 2});
  CHECK(calculate({1, 2}, '/', {-1, 4}) == Rational{-2, 1});
  CHECK(calculate({-1, 2}, '/', {-1, 4}) == Rational{2, 1});
}

TEST_CASE("rational: division by 0 and overflow give nothing") {
  CHECK_FALSE(calculate({1, 1}, '/', {0, 1}).has_value());
  CHECK_FALSE(calculate({INT64_MAX, 1}, '+', {1, 1}).has_value());
  CHECK_FALSE(calculate({-INT64_MAX, 1}, '-', {1, 1}).has_value());  // INT64_MIN has no magnitude
  CHECK_FALSE(calculate({INT64_MAX, 1}, '*', {2, 1}).has_value());
  CHECK_FALSE(calculate({1, INT64_MAX}, '/', {INT64_MAX, 1}).has_value());
  CHECK(calculate({INT64_MAX, 1}, '-', {1, 1}) == Rational{INT64_MAX - 1, 1});
}
