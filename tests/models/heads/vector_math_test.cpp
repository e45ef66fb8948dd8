#include "models/heads/vector_math.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// The distance from the exact value, in units in the last place (ULP) of the nearest float.
double error_in_ulp(float got, double exact) {
  const float rounded = static_cast<float>(exact);
  const float next = std::nextafter(std::abs(rounded), std::numeric_limits<float>::infinity());
  return std::abs(got - exact) / (static_cast<double>(next) - std::abs(rounded));
}

}  // namespace

TEST_CASE("vector_math: exp of numbers up to 0 is within 2 units in the last place, and 0 far below") {
  double worst = 0;
  for (float x = 0.0f; x > -87.0f; x -= 0.0137f)
    worst = std::max(worst, error_in_ulp(exp_of_nonpositive(x), std::exp(static_cast<double>(x))));
  CHECK(worst < 2.0);
  CHECK(exp_of_nonpositive(0.0f) == 1.0f);
  CHECK(exp_of_nonpositive(-88.0f) == 0.0f);
  CHECK(exp_of_nonpositive(-std::numeric_limits<float>::infinity()) == 0.0f);
  CHECK(std::isnan(exp_of_nonpositive(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("vector_math: tanh is within 3 units in the last place over its whole range") {
  double worst = 0;
  for (float x = 1e-6f; x < 20.0f; x *= 1.0007f) {
    float pair[2] = {x, -x};
    tanh_in_place(pair, 2);
    worst = std::max(worst, error_in_ulp(pair[0], std::tanh(static_cast<double>(x))));
    CHECK(pair[1] == -pair[0]);
  }
  CHECK(worst < 3.0);
}

TEST_CASE("vector_math: tanh of 0, infinity and NaN") {
  const float infinity = std::numeric_limits<float>::infinity();
  float x[] = {0.0f, infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), 3e38f};
  tanh_in_place(x, 5);
  CHECK(x[0] == 0.0f);
  CHECK(x[1] == 1.0f);
  CHECK(x[2] == -1.0f);
  CHECK(std::isnan(x[3]));
  CHECK(x[4] == 1.0f);
}

TEST_CASE("vector_math: tanh of a number does not depend on its position in the array") {
  std::vector<float> all(101);
  Rng rng(1);
  for (float& x : all) x = 2.0f * rng.normal();
  const std::vector<float> inputs = all;
  tanh_in_place(all.data(), 101);
  for (size_t i = 0; i < all.size(); ++i) {
    float alone = inputs[i];
    tanh_in_place(&alone, 1);
    CHECK(alone == all[i]);
  }
}

TEST_CASE("vector_math: a number that is not finite is found at any position") {
  for (size_t at : {0, 15, 16, 40}) {
    std::vector<float> x(41, 1e38f);
    CHECK(all_finite(x.data(), 41));
    x[at] = -std::numeric_limits<float>::infinity();
    CHECK_FALSE(all_finite(x.data(), 41));
    x[at] = std::numeric_limits<float>::quiet_NaN();
    CHECK_FALSE(all_finite(x.data(), 41));
  }
}
