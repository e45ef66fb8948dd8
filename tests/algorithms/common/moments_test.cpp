#include "algorithms/common/moments.h"

#include <cmath>
#include <limits>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> numbers(std::size_t n, float mean = 0, uint64_t seed = 1) {
  Rng rng(derive_key(seed, "moments"));
  std::vector<float> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(mean + rng.normal());
  return out;
}

std::vector<uint8_t> some(std::size_t n) {
  std::vector<uint8_t> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(i % 3 != 1);
  return out;
}

// Mean and variance in two passes, in long double.
Moments oracle(const std::vector<float>& x, const std::vector<uint8_t>& mask) {
  long double count = 0, sum = 0, squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (mask.empty() || mask[i]) count += 1, sum += x[i];
  const long double mean = count > 0 ? sum / count : 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (mask.empty() || mask[i]) squares += (x[i] - mean) * (x[i] - mean);
  return {static_cast<double>(count), static_cast<double>(mean), static_cast<double>(squares)};
}

void check_equal(const Moments& got, const Moments& want) {
  CHECK(got.count == want.count);
  CHECK(got.mean == doctest::Approx(want.mean).epsilon(1e-12));
  CHECK(got.m2 == doctest::Approx(want.m2).epsilon(1e-9));
}

}  // namespace

TEST_CASE("moments: two passes, single numbers and merged parts agree with long double, also far from 0") {
  for (const float mean : {0.0f, 1e6f})
    for (const std::size_t n : {0u, 1u, 2u, 7u, 8u, 9u, 1000u}) {
      const std::vector<float> x = numbers(n, mean);
      const Moments want = oracle(x, {});
      Moments one_by_one;
      for (const float v : x) one_by_one.add(v);
      const std::span<const float> all(x);
      Moments merged = masked_moments(all.first(n / 3), {});
      merged.merge(masked_moments(all.subspan(n / 3), {}));
      check_equal(masked_moments(x, {}), want);
      check_equal(one_by_one, want);
      check_equal(merged, want);
    }
}

TEST_CASE("moments: only unmasked elements count, and masked NaN has no effect") {
  std::vector<float> x = numbers(100);
  const std::vector<uint8_t> mask = some(100);
  const Moments want = oracle(x, mask);
  for (std::size_t i = 0; i < 100; ++i)
    if (!mask[i]) x[i] = kNaN;
  check_equal(masked_moments(x, mask), want);
}

TEST_CASE("moments: merging with an empty stream, from either side, changes nothing") {
  const Moments some_numbers = masked_moments(numbers(10), {});
  Moments left, right = some_numbers;
  left.merge(some_numbers);
  right.merge({});
  check_equal(left, some_numbers);
  check_equal(right, some_numbers);
}

TEST_CASE("moments: variances of few numbers are finite") {
  Moments m;
  CHECK(m.variance() == 0);
  m.add(5);
  CHECK(m.variance() == 0);
  CHECK(m.variance(true) == 0);
  m.add(7);
  CHECK(m.variance() == 1);
  CHECK(m.variance(true) == 2);
  CHECK(m.stddev() == 1);
}

TEST_CASE("whiten: gives mean 0 and population standard deviation 1") {
  std::vector<float> x = numbers(1000, 5);
  whiten(x, {});
  const Moments m = oracle(x, {});
  CHECK(std::abs(m.mean) < 1e-7);
  CHECK(m.stddev() == doctest::Approx(1).epsilon(1e-6));
}

TEST_CASE("whiten: a worked unbiased example, masked elements transformed too") {
  std::vector<float> x = {1, 2, 3, 4};
  const std::vector<uint8_t> mask = {0, 1, 1, 0};
  WhitenParams params;
  params.unbiased = true;
  params.zero_masked = false;
  params.guard = WhitenGuard::add_to_variance;
  whiten(x, mask, params);
  const double want[] = {-2.12132031, -0.707106758, 0.707106794, 2.121320345};
  for (std::size_t i = 0; i < 4; ++i) CHECK(x[i] == doctest::Approx(want[i]).epsilon(1e-7));
}

TEST_CASE("whiten: masked elements become 0, even NaN") {
  std::vector<float> x = {kNaN, 2, 4, std::numeric_limits<float>::infinity()};
  whiten(x, std::vector<uint8_t>{0, 1, 1, 0});
  CHECK(x[0] == 0);
  CHECK(x[1] == doctest::Approx(-1).epsilon(1e-6));
  CHECK(x[2] == doctest::Approx(1).epsilon(1e-6));
  CHECK(x[3] == 0);
}

TEST_CASE("whiten: no element gives zeros, one element gives 0, with every guard") {
  for (const WhitenGuard guard : {WhitenGuard::add_to_std, WhitenGuard::add_to_variance, WhitenGuard::floor_variance})
    for (const bool unbiased : {false, true}) {
      WhitenParams params;
      params.guard = guard;
      params.unbiased = unbiased;
      std::vector<float> none = {3, 4}, one = {3, 4}, empty;
      whiten(none, std::vector<uint8_t>{0, 0}, params);
      whiten(one, std::vector<uint8_t>{0, 1}, params);
      whiten(empty, {}, params);
      CHECK(none == std::vector<float>{0, 0});
      CHECK(one == std::vector<float>{0, 0});
    }
}

TEST_CASE("whiten: with one unmasked element, masked ones that are kept are only centered") {
  std::vector<float> x = {3, 4};
  WhitenParams params;
  params.zero_masked = false;
  whiten(x, std::vector<uint8_t>{0, 1}, params);
  CHECK(x == std::vector<float>{-1, 0});
}

TEST_CASE("whiten: the three guards of the divisor") {
  const auto first = [](WhitenGuard guard, double epsilon, std::vector<float> x) {
    WhitenParams params;
    params.guard = guard;
    params.epsilon = epsilon;
    whiten(x, {}, params);
    return static_cast<double>(x[0]);
  };
  CHECK(first(WhitenGuard::add_to_std, 1, {3, -3}) == doctest::Approx(.75));
  CHECK(first(WhitenGuard::add_to_std, 0, {1e-7f, -1e-7f}) == doctest::Approx(.1));  // the variance is raised to 1e-12
  CHECK(first(WhitenGuard::add_to_variance, 16, {3, -3}) == doctest::Approx(.6));
  CHECK(first(WhitenGuard::floor_variance, 4, {3, -3}) == doctest::Approx(1));
  CHECK(first(WhitenGuard::floor_variance, 36, {3, -3}) == doctest::Approx(.5));
}

TEST_CASE("whiten: equal numbers become exactly 0, without rounding errors") {
  std::vector<float> x(1000, 0.1f);
  whiten(x, {});
  for (const float v : x) REQUIRE(std::abs(v) < 1e-6);
}

TEST_CASE("whiten: can keep the mean, or only center") {
  std::vector<float> kept = {9, 11}, centred = {5, 15};
  WhitenParams params;
  params.shift_mean = false;
  whiten(kept, {}, params);
  CHECK(kept[0] == doctest::Approx(9).epsilon(1e-6));
  params = {};
  params.scale = false;
  whiten(centred, {}, params);
  CHECK(centred == std::vector<float>{-5, 5});
}

TEST_CASE("whiten: parts whitened with merged moments equal the whole") {
  std::vector<float> whole = numbers(300, 2), parts = whole;
  const std::vector<uint8_t> mask = some(300);
  const std::span<float> all(parts);
  const std::span<const uint8_t> flags(mask);
  Moments m = masked_moments(all.first(100), flags.first(100));
  m.merge(masked_moments(all.subspan(100), flags.subspan(100)));
  whiten(all.first(100), flags.first(100), m);
  whiten(all.subspan(100), flags.subspan(100), m);
  whiten(whole, mask);
  for (std::size_t i = 0; i < 300; ++i) REQUIRE(parts[i] == doctest::Approx(whole[i]).epsilon(1e-6));
}

TEST_CASE("whiten: an unmasked NaN makes every result NaN") {
  std::vector<float> x = {1, kNaN, 3};
  whiten(x, {});
  for (const float v : x) CHECK(std::isnan(v));
}

TEST_CASE("whiten: a mask of another size is rejected") {
  std::vector<float> x(3);
  CHECK_THROWS_AS(whiten(x, std::vector<uint8_t>{1}), InvariantError);
}

// moments.h introduces these libraries.
TEST_CASE("whiten: the variants of other code bases") {
  const auto first = [](std::string_view variant, std::vector<float> x) {
    whiten(x, {}, find_whiten_variant(variant));
    return static_cast<double>(x[0]);
  };
  for (const char* unbiased : {"verl", "slime"}) CHECK(first(unbiased, {1, 3}) == doctest::Approx(-std::sqrt(.5)));
  for (const char* biased : {"openrlhf", "accerl", "lm_human_preferences"})
    CHECK(first(biased, {1, 3}) == doctest::Approx(-1));
  CHECK(first("openrlhf", {-1e-5f, 1e-5f}) == doctest::Approx(-.1));
  CHECK(first("lm_human_preferences", {-1e-4f, 1e-4f}) == doctest::Approx(-std::sqrt(.5)));
  CHECK(first("accerl", {-1e-7f, 1e-7f}) == doctest::Approx(-.1).epsilon(.02));
  CHECK_THROWS_AS(find_whiten_variant("ver"), ConfigError);
}

TEST_CASE("whiten: strict rejects fewer than two elements") {
  WhitenParams params;
  params.strict = true;
  std::vector<float> x = {1, 2};
  CHECK_THROWS_WITH_AS(whiten(x, std::vector<uint8_t>{0, 1}, params),
                       "mask: 1 unmasked elements, but whitening needs at least 2", ConfigError);
  CHECK_THROWS_AS(whiten(x, std::vector<uint8_t>{0, 0}, params), ConfigError);
  whiten(x, std::vector<uint8_t>{1, 1}, params);
}
