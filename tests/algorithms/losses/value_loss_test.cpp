#include "algorithms/losses/value_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Batch {
  std::vector<float> values, old_values, returns;
  std::vector<uint8_t> mask;

  explicit Batch(std::size_t n, uint64_t seed = 1) {
    Rng rng(derive_key(seed, "value_loss"));
    for (std::size_t i = 0; i < n; ++i) {
      old_values.push_back(rng.normal());
      values.push_back(old_values.back() + .4f * rng.normal());
      returns.push_back(2 * rng.normal());
      mask.push_back(rng.below(3) != 0);
    }
  }
  bool live(std::size_t i) const { return mask.empty() || mask[i]; }
};

struct Result {
  std::vector<float> loss, grad;
  double clip_fraction;
};

Result run(const Batch& b, const ValueLossParams& params) {
  Result out{std::vector<float>(b.values.size(), kNaN), std::vector<float>(b.values.size(), kNaN), -1};
  out.clip_fraction = value_loss(b.values, b.old_values, b.returns, b.mask, params, out.loss, out.grad);
  return out;
}

double penalty(double x, const ValueLossParams& params) {
  const double size = std::abs(x);
  if (params.kind == ValueLossKind::l2 || size <= params.huber_delta) return .5 * x * x;
  return params.huber_delta * (size - .5 * params.huber_delta);
}

double oracle(double value, double old, double target, const ValueLossParams& params) {
  const double plain = penalty(value - target, params);
  if (params.clip == 0) return plain;
  const double near = std::clamp(value, old - params.clip, old + params.clip);
  return std::max(plain, penalty(near - target, params));
}

std::vector<ValueLossParams> all_params() {
  std::vector<ValueLossParams> out;
  for (const ValueLossKind kind : {ValueLossKind::l2, ValueLossKind::huber})
    for (const float clip : {0.0f, .2f, 100.0f})
      for (const float delta : {.5f, 1.0f}) out.push_back({kind, clip, delta});
  return out;
}

void check_against_oracle(const Batch& b, const ValueLossParams& params) {
  const Result got = run(b, params);
  double clipped = 0, live = 0;
  for (std::size_t i = 0; i < b.values.size(); ++i) {
    if (!b.live(i)) {
      REQUIRE(got.loss[i] == 0);
      REQUIRE(got.grad[i] == 0);
      continue;
    }
    const double v = b.values[i], old = b.old_values[i], target = b.returns[i], h = 1e-6;
    const double want = oracle(v, old, target, params);
    REQUIRE(std::abs(got.loss[i] - want) <= 1e-6 * (1 + want));
    const double left = (want - oracle(v - h, old, target, params)) / h;
    const double right = (oracle(v + h, old, target, params) - want) / h;
    if (std::abs(left - right) < 1e-4) REQUIRE(std::abs(got.grad[i] - .5 * (left + right)) < 1e-4);
    live += 1;
    clipped += want > penalty(v - target, params);
  }
  CHECK(got.clip_fraction == doctest::Approx(live > 0 ? clipped / live : 0).epsilon(1e-12));
}

// Loss and gradient of a single element.
std::pair<float, float> single(float value, float old, float target, const ValueLossParams& params) {
  Batch b(1);
  b.values = {value};
  b.old_values = {old};
  b.returns = {target};
  b.mask = {};
  const Result got = run(b, params);
  return {got.loss[0], got.grad[0]};
}

}  // namespace

TEST_CASE("value_loss: loss, gradient and clip fraction agree with a float64 oracle and its finite differences") {
  for (const std::size_t n : {0u, 1u, 63u, 64u, 65u, 2000u})
    for (const ValueLossParams& params : all_params()) {
      CAPTURE(n);
      Batch b(n, n);
      check_against_oracle(b, params);
      b.mask.clear();
      check_against_oracle(b, params);
      b.mask.assign(n, 0);
      check_against_oracle(b, params);
    }
}

TEST_CASE("value_loss: l2 contains the factor 1/2") { CHECK(single(3, 0, 1, {}) == std::pair<float, float>(2, 2)); }

TEST_CASE("value_loss: huber is quadratic up to delta and linear beyond") {
  const ValueLossParams params{ValueLossKind::huber, 0, 1};
  CHECK(single(1, 0, 0, params) == std::pair<float, float>(.5f, 1));
  CHECK(single(3, 0, 0, params) == std::pair<float, float>(2.5f, 1));
  CHECK(single(-3, 0, 0, params) == std::pair<float, float>(2.5f, -1));
}

TEST_CASE("value_loss: clipping uses the larger loss, and has no gradient where the clipped one is larger") {
  const ValueLossParams params{ValueLossKind::l2, .5f, 1};
  CHECK(single(2, 0, 2, params) == std::pair<float, float>(1.125f, 0));  // clipped to .5: worse
  CHECK(single(2, 0, -1, params) == std::pair<float, float>(4.5f, 3));   // clipped to .5: better, so not used
}

TEST_CASE("value_loss: exactly on the clip bound and for equal losses, the gradient exists") {
  const ValueLossParams params{ValueLossKind::l2, .5f, 1};
  CHECK(single(.5f, 0, 1, params).second == -.5f);
  CHECK(single(std::nextafter(.5f, 1.0f), 0, 1, params).second == 0);
  CHECK(single(1, 0, .75f, params).second == .25f);  // clipped to .5: the same distance on the other side
}

TEST_CASE("value_loss: masked NaN and inf do not affect results") {
  for (const ValueLossParams& params : all_params())
    for (const float poison : {kNaN, kInf, -kInf}) {
      Batch b(150, 4);
      const Result clean = run(b, params);
      for (std::size_t i = 0; i < 150; ++i)
        if (!b.mask[i]) b.values[i] = b.old_values[i] = b.returns[i] = poison;
      const Result got = run(b, params);
      CHECK(got.loss == clean.loss);
      CHECK(got.grad == clean.grad);
      CHECK(got.clip_fraction == clean.clip_fraction);
    }
}

TEST_CASE("value_loss: an unmasked NaN appears in loss and gradient") {
  for (const ValueLossParams& params : all_params())
    for (const auto& [value, target] : {std::pair{kNaN, 0.0f}, {0.0f, kNaN}}) {
      const auto [loss, grad] = single(value, 0, target, params);
      CHECK(std::isnan(loss));
      CHECK(std::isnan(grad));
    }
}

TEST_CASE("value_loss: old values are not needed when clipping is off") {
  Batch b(5);
  b.old_values.clear();
  CHECK(run(b, {}).clip_fraction == 0);
  CHECK_THROWS_AS(run(b, {ValueLossKind::l2, .2f, 1}), InvariantError);
}

TEST_CASE("value_loss: bad parameters and unknown kinds are rejected") {
  Batch b(5);
  CHECK_THROWS_AS(run(b, {ValueLossKind::l2, -.2f, 1}), InvariantError);
  CHECK_THROWS_AS(run(b, {ValueLossKind::l2, kNaN, 1}), InvariantError);
  CHECK_THROWS_AS(run(b, {ValueLossKind::huber, 0, 0}), InvariantError);
  CHECK(find_value_loss("l2") == ValueLossKind::l2);
  CHECK(find_value_loss("huber") == ValueLossKind::huber);
  CHECK_THROWS_WITH_AS(find_value_loss("hubert"),
                       "algorithm.value_loss: unknown name \"hubert\", did you mean \"huber\"? (known: l2, huber)",
                       ConfigError);
}

TEST_CASE("explained_variance: 1 for a perfect critic, 0 for a constant, negative for worse") {
  const std::vector<float> returns = {1, 2, 3, 4}, constant = {9, 9, 9, 9}, wrong = {4, 3, 2, 1};
  CHECK(explained_variance(returns, returns, {}) == 1);
  CHECK(explained_variance(constant, returns, {}) == doctest::Approx(0));
  CHECK(explained_variance(wrong, returns, {}) == doctest::Approx(-3));
  CHECK(explained_variance(wrong, constant, {}) == 0);
  CHECK(explained_variance({}, {}, {}) == 0);
}

TEST_CASE("explained_variance: masked elements do not count") {
  const std::vector<float> returns = {1, 2, 3, kNaN}, values = {1, 2, 3, 100};
  const std::vector<uint8_t> mask = {1, 1, 1, 0};
  CHECK(explained_variance(values, returns, mask) == 1);
}
