#include "algorithms/losses/kl.h"

#include <cmath>
#include <string>
#include <vector>

#include "runtime/base/errors.h"
#include "tests/algorithms/common/tokens.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

struct Estimate {
  std::vector<float> value, grad;
};

Estimate estimate(std::string_view name, const std::vector<float>& log_probs, const std::vector<float>& reference,
                  std::span<const uint8_t> mask = {}) {
  Estimate out{std::vector<float>(log_probs.size(), kNaN), std::vector<float>(log_probs.size(), kNaN)};
  kl_estimate(find_kl(name), log_probs, reference, mask, out.value, out.grad);
  return out;
}

double value_of(const std::string& name, double d) {
  if (name == "k1" || name == "kl") return d;
  if (name == "abs") return std::abs(d);
  if (name == "k2" || name == "mse") return d * d / 2;
  if (name == "k3") return std::exp(-d) + d - 1;
  const double x = std::min(std::max(-d, -20.0), 20.0);
  return std::min(std::max(std::exp(x) - x - 1, -10.0), 10.0);
}

}  // namespace

TEST_CASE("kl: every estimate agrees with float64, its gradient with finite differences") {
  for (const float spread : {.01f, .5f, 4.0f})
    for (const char* name : {"k1", "kl", "abs", "k2", "mse", "k3", "low_var_kl"}) {
      CAPTURE(name);
      const Tokens tokens(400, 61, spread);
      const Estimate got = estimate(name, tokens.log_probs, tokens.old_log_probs, tokens.mask);
      const Estimate plus = estimate(std::string(name) + "+", tokens.log_probs, tokens.old_log_probs, tokens.mask);
      for (std::size_t i = 0; i < 400; ++i) {
        if (!tokens.live(i)) {
          REQUIRE((got.value[i] == 0 && got.grad[i] == 0));
          continue;
        }
        const double d = tokens.log_ratio(i), want = value_of(name, d), h = 1e-6;
        REQUIRE(got.value[i] == doctest::Approx(want).epsilon(1e-5));
        const double slope = (value_of(name, d + h) - value_of(name, d - h)) / (2 * h);
        REQUIRE(std::abs(got.grad[i] - slope) <= 1e-4 * (1 + std::abs(slope)));
        REQUIRE(plus.value[i] == got.value[i]);
        REQUIRE(plus.grad[i] == static_cast<float>(d));
      }
    }
}

TEST_CASE("kl: low_var_kl is clamped at 10 without gradient, k3 is not") {
  const Estimate low = estimate("low_var_kl", {-3}, {0}), k3 = estimate("k3", {-3}, {0});
  CHECK(low.value[0] == 10);
  CHECK(low.grad[0] == 0);
  CHECK(k3.value[0] == doctest::Approx(std::exp(3) - 4));
  CHECK(k3.grad[0] == doctest::Approx(1 - std::exp(3)));
}

TEST_CASE("kl: k3 is accurate near 0, and abs has slope 0 at 0") {
  CHECK(estimate("k3", {1e-5f}, {0}).value[0] == doctest::Approx(.5e-10).epsilon(1e-4));
  CHECK(estimate("abs", {0}, {0}).grad[0] == 0);
}

TEST_CASE("kl: masked NaN has no effect, unmasked NaN appears in the result") {
  const std::vector<uint8_t> mask = {1, 0};
  for (const char* name : {"k1", "abs", "k2", "k3", "low_var_kl", "k3+"}) {
    const Estimate hidden = estimate(name, {.5f, kNaN}, {0, kInf}, mask);
    CHECK((hidden.value[1] == 0 && hidden.grad[1] == 0));
    CHECK(std::isnan(estimate(name, {kNaN}, {0}).value[0]));
  }
}

TEST_CASE("kl: unknown names and wrong sizes are rejected, full needs logits") {
  CHECK_THROWS_WITH_AS(find_kl("k33"), doctest::Contains("did you mean \"k3\"?"), ConfigError);
  CHECK_THROWS_WITH_AS(find_kl("kl3"), doctest::Contains("did you mean \"k3\"?"), ConfigError);
  CHECK_THROWS_WITH_AS(find_kl("k33+"), doctest::Contains("did you mean \"k3+\"?"), ConfigError);
  CHECK_THROWS_WITH_AS(find_kl("exact"), doctest::Contains("did you mean \"full\"?"), ConfigError);
  CHECK_THROWS_WITH_AS(find_kl("wasserstein"), doctest::Contains("unknown name \"wasserstein\" (known: k1, "),
                       ConfigError);
  CHECK_THROWS_AS(find_kl("+"), ConfigError);
  CHECK_THROWS_AS(find_kl("k3++"), ConfigError);
  CHECK(find_kl("full+").k2_gradient);
  CHECK_THROWS_AS(estimate("full", {0}, {0}), InvariantError);
  CHECK_THROWS_AS(estimate("k1", {0}, {0, 1}), InvariantError);
}

TEST_CASE("adaptive kl: a worked sequence of updates") {
  AdaptiveKl kl(.02, .01, 1e4);
  for (const auto& [current, want] : {std::pair{.03, .0201024}, {.01, .0201024}, {0.0, .019999475712}}) {
    kl.update(current, 256);
    CHECK(kl.value() == doctest::Approx(want).epsilon(1e-12));
  }
}

TEST_CASE("adaptive kl: input that could flip its sign is rejected, and a coefficient of 0 stays 0") {
  AdaptiveKl kl(.02, .01, 100);
  CHECK_THROWS_AS(kl.update(.01, 500), ConfigError);
  CHECK_THROWS_AS(kl.update(.01, -1), ConfigError);
  CHECK_THROWS_AS(kl.update(std::nan(""), 1), ConfigError);
  kl.update(0, 499);
  CHECK(kl.value() > 0);
  CHECK_THROWS_AS(AdaptiveKl(.02, 0, 100), ConfigError);
  CHECK_THROWS_AS(AdaptiveKl(.02, .01, 0), ConfigError);
  CHECK_THROWS_AS(AdaptiveKl(-.02, .01, 1), ConfigError);
  AdaptiveKl none(0, .01, 100);
  none.update(5, 10);
  CHECK(none.value() == 0);
}

TEST_CASE("fixed kl: is constant") {
  FixedKl kl{.3};
  kl.update(100, 5);
  CHECK(kl.value == .3);
}
