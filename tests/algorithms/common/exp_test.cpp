#include "algorithms/common/exp.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("exp_bounded: within 2e-7 of exp over its whole range, exact at 0") {
  double worst = 0;
  for (int i = -4'350'000; i <= 4'350'000; ++i) {
    const float x = static_cast<float>(i) * 2e-5f;
    worst = std::max(worst, std::abs(exp_bounded(x) / std::exp(double{x}) - 1));
  }
  for (const float x : {-kExpLimit, kExpLimit, std::nextafter(-kExpLimit, 0.0f), std::nextafter(kExpLimit, 0.0f),
                        std::numeric_limits<float>::denorm_min(), -std::numeric_limits<float>::min()})
    worst = std::max(worst, std::abs(exp_bounded(x) / std::exp(double{x}) - 1));
  CHECK(worst < 2e-7);
  CHECK(exp_bounded(0.0f) == 1.0f);
  CHECK(exp_bounded(-0.0f) == 1.0f);
  CHECK(std::isnan(exp_bounded(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("exp_parts: n is the integer nearest to x / ln2, and f the remainder, at most half of ln2") {
  for (int i = -87'000; i <= 87'000; ++i) {
    const float x = static_cast<float>(i) * 1e-3f;
    const ExpParts e = exp_parts(x);
    const double n = double{e.shifted} - double{exp_steps::kRound};
    REQUIRE(std::abs(n - double{x} / std::log(2.0)) < 0.50001);
    REQUIRE(double{e.f} == doctest::Approx(double{x} - n * std::log(2.0)).epsilon(1e-5).scale(1));
  }
}
