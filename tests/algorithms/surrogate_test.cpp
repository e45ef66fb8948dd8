#include "algorithms/surrogate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "runtime/errors.h"
#include "runtime/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Batch {
  std::vector<float> log_probs, old_log_probs, advantages;
  std::vector<uint8_t> mask;

  explicit Batch(std::size_t n, uint64_t seed = 1, float spread = 0.5f) {
    Rng rng(derive_key(seed, "surrogate"));
    for (std::size_t i = 0; i < n; ++i) {
      old_log_probs.push_back(-2 + rng.normal());
      log_probs.push_back(old_log_probs.back() + spread * rng.normal());
      advantages.push_back(rng.below(8) == 0 ? 0.0f : 2 * rng.normal());
      mask.push_back(rng.below(3) != 0);
    }
  }
  // Ratios and advantages given one by one, all unmasked.
  static Batch of(const std::vector<double>& ratios, const std::vector<float>& advantages) {
    Batch batch(0);
    batch.advantages = advantages;
    batch.old_log_probs.assign(ratios.size(), 0.0f);
    for (const double r : ratios) batch.log_probs.push_back(static_cast<float>(std::log(r)));
    return batch;
  }
  SurrogateInput input() const { return {log_probs, old_log_probs, advantages, mask}; }
  bool live(std::size_t i) const { return mask.empty() || mask[i]; }
};

struct Result {
  std::vector<float> loss, grad;
};

Result run(const Batch& batch, const SurrogateParams& params = {}, std::string_view name = "clip") {
  Result out{std::vector<float>(batch.log_probs.size(), kNaN), std::vector<float>(batch.log_probs.size(), kNaN)};
  find_surrogate(name)(batch.input(), params, {out.loss, out.grad});
  return out;
}

// The loss as the papers write it, in double, of a log-ratio d.
double clip_loss(double d, double advantage, const SurrogateParams& params) {
  const double r = std::exp(std::clamp(d, -20.0, 20.0));
  const double clipped = std::clamp(r, 1.0 - params.clip_low, 1.0 + params.clip_high);
  const double loss = std::max(-advantage * r, -advantage * clipped);
  return params.dual_clip > 0 && advantage < 0 ? std::min(loss, -advantage * params.dual_clip) : loss;
}

double plain_loss(double d, double advantage, const SurrogateParams&) {
  return -advantage * std::exp(std::clamp(d, -20.0, 20.0));
}

// The central difference of the loss; where the loss has a kink inside the interval, NaN.
template <class Loss>
double slope(Loss loss, double d, double advantage, const SurrogateParams& params) {
  constexpr double h = 1e-5;
  const double left = (loss(d, advantage, params) - loss(d - h, advantage, params)) / h;
  const double right = (loss(d + h, advantage, params) - loss(d, advantage, params)) / h;
  const bool kink = std::abs(left - right) > 1e-3 * (1 + std::abs(left) + std::abs(right));
  return kink ? std::nan("") : 0.5 * (left + right);
}

template <class Loss>
void check_against_oracle(std::string_view name, Loss loss, const SurrogateParams& params, const Batch& batch) {
  const Result got = run(batch, params, name);
  int compared = 0;
  for (std::size_t i = 0; i < batch.log_probs.size(); ++i) {
    if (!batch.live(i)) {
      REQUIRE(got.loss[i] == 0);
      REQUIRE(got.grad[i] == 0);
      continue;
    }
    const double d = batch.log_probs[i] - batch.old_log_probs[i];  // rounded to float, as in the kernel
    const double want = loss(d, batch.advantages[i], params);
    REQUIRE(std::abs(got.loss[i] - want) <= 1e-6 * (1 + std::abs(want)));
    const double want_slope = slope(loss, d, batch.advantages[i], params);
    if (std::isnan(want_slope)) continue;
    ++compared;
    REQUIRE(std::abs(got.grad[i] - want_slope) <= 2e-4 * (1 + std::abs(want_slope)));
  }
  CHECK(compared * 10 >= 9 * std::count_if(batch.mask.begin(), batch.mask.end(), [](uint8_t m) { return m; }));
}

// The ratio that the kernel computes for a log-ratio.
float kernel_ratio(float d) {
  Batch batch(1);
  batch.log_probs = {d};
  batch.old_log_probs = {0};
  batch.advantages = {-1};
  batch.mask = {};
  return run(batch, {}, "none").loss[0];
}

}  // namespace

TEST_CASE("surrogate: loss and gradient agree with a float64 oracle and its finite differences") {
  for (const std::size_t n : {0u, 1u, 63u, 64u, 65u, 3000u})
    for (const float spread : {0.0f, 0.3f, 3.0f, 15.0f})
      for (const SurrogateParams params :
           {SurrogateParams{}, {.2f, .28f, 0}, {.1f, .4f, 3}, {kInf, kInf, 1.5f}, {0, 0, 0}}) {
        CAPTURE(n);
        CAPTURE(spread);
        // With nothing between the bounds every element at ratio 1 sits on a kink, where there is no slope to compare.
        if (params.clip_low == 0 && spread == 0) continue;
        const Batch batch(n, n + 7, spread);
        check_against_oracle("clip", clip_loss, params, batch);
        check_against_oracle("none", plain_loss, params, batch);
      }
}

TEST_CASE("surrogate: the worked clip example") {
  Batch batch(3);
  batch.advantages = {1, -1, 2};
  batch.old_log_probs = {-1, -1, -1};
  batch.log_probs = {-1.69315f, -1, -.59453f};
  batch.mask = {};
  const Result got = run(batch);
  CHECK(got.loss[0] == doctest::Approx(-.5).epsilon(1e-5));
  CHECK(got.loss[1] == doctest::Approx(1));
  CHECK(got.loss[2] == doctest::Approx(-2.4));
  CHECK((got.loss[0] + got.loss[1] + got.loss[2]) / 3 == doctest::Approx(-.6333).epsilon(1e-4));
}

TEST_CASE("surrogate: the worked dual-clip example, and clip-higher") {
  const Result got = run(Batch::of({2, 2, .5}, {2, -2, 2}), {.2f, .2f, 1.5f});
  CHECK(got.loss[0] == doctest::Approx(-2.4));
  CHECK(got.loss[1] == doctest::Approx(3.0));
  CHECK(got.loss[2] == doctest::Approx(-1.0));
  CHECK(got.grad[1] == 0);
  const Result higher = run(Batch::of({1.25, 1.3}, {1, 1}), {.2f, .28f, 0});
  CHECK(higher.loss[0] == doctest::Approx(-1.25));
  CHECK(higher.loss[1] == doctest::Approx(-1.28));
}

TEST_CASE("surrogate: at ratio 1.5 and advantage 2 clip gives -2.4 without gradient") {
  const Result got = run(Batch::of({1.5}, {2}));
  CHECK(got.loss[0] == doctest::Approx(-2.4));
  CHECK(got.grad[0] == 0);
}

TEST_CASE("surrogate: exactly on a bound the gradient is still there, one step beyond it is not") {
  const auto grad = [](float d, float advantage, const SurrogateParams& params) {
    Batch batch(1);
    batch.log_probs = {d};
    batch.old_log_probs = {0};
    batch.advantages = {advantage};
    batch.mask = {};
    return run(batch, params).grad[0];
  };
  const float high = kernel_ratio(.2f), low = kernel_ratio(-.2f);  // high - 1 and 1 - low are exact in float
  CHECK(grad(.2f, 2, {.2f, high - 1, 0}) == -2 * high);
  CHECK(grad(.2f, 2, {.2f, std::nextafter(high, 0.0f) - 1, 0}) == 0);
  CHECK(grad(.2f, -2, {.2f, std::nextafter(high, 0.0f) - 1, 0}) == 2 * high);
  CHECK(grad(-.2f, -2, {1 - low, .2f, 0}) == 2 * low);
  CHECK(grad(-.2f, -2, {1 - std::nextafter(low, 1.0f), .2f, 0}) == 0);
  CHECK(grad(-.2f, 2, {1 - std::nextafter(low, 1.0f), .2f, 0}) == -2 * low);
  CHECK(grad(.2f, -2, {.2f, .2f, high}) == 2 * high);
  CHECK(grad(.2f, -2, {.2f, .2f, std::nextafter(high, 0.0f)}) == 0);
  CHECK(grad(0, 3, {0, 0, 0}) == -3);
}

TEST_CASE("surrogate: beyond a log-ratio of 20 there is no gradient, at 20 there is") {
  Batch batch(4);
  batch.old_log_probs = {0, 0, 0, 0};
  batch.log_probs = {20, 20.001f, -20, -20.001f};
  batch.advantages = {-1, -1, 1, 1};
  batch.mask = {};
  const Result got = run(batch, {}, "none");
  CHECK(got.grad[0] == doctest::Approx(std::exp(20.0)).epsilon(1e-6));
  CHECK(got.grad[1] == 0);
  CHECK(got.grad[2] == doctest::Approx(-std::exp(-20.0)).epsilon(1e-6));
  CHECK(got.grad[3] == 0);
}

TEST_CASE("surrogate: NaN and inf under the mask's zeros change no byte and no diagnostic") {
  for (const float poison : {kNaN, kInf, -kInf}) {
    Batch batch(200, 3);
    const Result clean = run(batch, {.2f, .2f, 3});
    const SurrogateDiagnostics before = surrogate_diagnostics(batch.input(), {});
    for (std::size_t i = 0; i < 200; ++i)
      if (!batch.mask[i]) batch.log_probs[i] = batch.old_log_probs[i] = batch.advantages[i] = poison;
    const Result got = run(batch, {.2f, .2f, 3});
    const SurrogateDiagnostics after = surrogate_diagnostics(batch.input(), {});
    CHECK(got.loss == clean.loss);
    CHECK(got.grad == clean.grad);
    CHECK(after.kl_k3 == before.kl_k3);
    CHECK(after.ess == before.ess);
  }
}

TEST_CASE("surrogate: a NaN in a real element shows in loss and gradient") {
  Batch batch = Batch::of({1, 1}, {1, kNaN});
  batch.log_probs[0] = kNaN;
  for (const char* name : {"clip", "none"}) {
    const Result got = run(batch, {.2f, .2f, 3}, name);
    for (const std::size_t i : {0u, 1u}) {
      CHECK(std::isnan(got.loss[i]));
      CHECK(std::isnan(got.grad[i]));
    }
  }
}

TEST_CASE("surrogate: every name of the table is found, ppo is clip") {
  for (const SurrogateEntry& entry : surrogate_table()) CHECK((find_surrogate(entry.name) == entry.function));
  CHECK((find_surrogate("ppo") == find_surrogate("clip")));
  CHECK((find_surrogate("none") != find_surrogate("clip")));
}

TEST_CASE("surrogate: an unknown name is refused with the nearest one") {
  const char* want = "algorithm.surrogate: unknown name \"clpi\", did you mean \"clip\"? (known: clip, ppo, none)";
  CHECK_THROWS_WITH_AS(find_surrogate("clpi"), want, ConfigError);
  CHECK_THROWS_AS(find_surrogate("Clip"), ConfigError);
  CHECK_THROWS_AS(find_surrogate(""), ConfigError);
}

TEST_CASE("surrogate: wrong sizes and parameters are refused") {
  Batch batch(4);
  const auto refuses = [&](const SurrogateParams& params) {
    CHECK_THROWS_AS(run(batch, params), InvariantError);
    CHECK_THROWS_AS(surrogate_diagnostics(batch.input(), params), InvariantError);
  };
  refuses({-.1f, .2f, 0});
  refuses({.2f, kNaN, 0});
  refuses({.2f, .2f, 1});
  refuses({.2f, .2f, -3});
  batch.advantages.pop_back();
  refuses({});
}

TEST_CASE("surrogate_diagnostics: agree with a float64 loop") {
  const SurrogateParams params{.2f, .3f, 2};
  const Batch batch(5000, 11, .6f);
  const SurrogateDiagnostics got = surrogate_diagnostics(batch.input(), params);
  double n = 0, k1 = 0, k3 = 0, clip = 0, dual = 0, outside = 0, w = 0, w2 = 0, c = 0, c2 = 0, largest = 0;
  for (std::size_t i = 0; i < 5000; ++i) {
    if (!batch.live(i)) continue;
    const double d = batch.log_probs[i] - batch.old_log_probs[i], r = std::exp(d), a = batch.advantages[i];
    const bool high = r > 1.3, low = r < 0.8;
    const double clamped = std::clamp(r, 0.8, 1.3);
    n += 1, k1 -= d, k3 += r - 1 - d;
    clip += (high && a > 0) || (low && a < 0);
    dual += a < 0 && r > 2;
    outside += high || low;
    w += r, w2 += r * r, c += clamped, c2 += clamped * clamped;
    largest = std::max(largest, r);
  }
  CHECK(got.count == n);
  CHECK(got.kl_k1 == doctest::Approx(k1 / n).epsilon(1e-9));
  CHECK(got.kl_k3 == doctest::Approx(k3 / n).epsilon(1e-9));
  CHECK(got.clip_fraction == doctest::Approx(clip / n).epsilon(1e-12));
  CHECK(got.clip_fraction_lower == doctest::Approx(dual / n).epsilon(1e-12));
  CHECK(got.outside_fraction == doctest::Approx(outside / n).epsilon(1e-12));
  CHECK(got.dead_gradient_fraction == doctest::Approx((clip + dual) / n).epsilon(1e-12));
  CHECK(got.ess == doctest::Approx(w * w / (n * w2)).epsilon(1e-6));
  CHECK(got.ess_clamped == doctest::Approx(c * c / (n * c2)).epsilon(1e-6));
  CHECK(got.ratio_mean == doctest::Approx(w / n).epsilon(1e-6));
  CHECK(got.ratio_max == doctest::Approx(largest).epsilon(1e-6));
}

TEST_CASE("surrogate_diagnostics: the dead fraction is the fraction of zero gradients where A is not 0") {
  const SurrogateParams params{.2f, .2f, 3};
  const Batch batch(4000, 12, 9.0f);
  const Result got = run(batch, params);
  double dead = 0, count = 0;
  for (std::size_t i = 0; i < 4000; ++i) {
    if (!batch.live(i)) continue;
    const float d = batch.log_probs[i] - batch.old_log_probs[i];
    count += 1;
    dead += got.grad[i] == 0 && (batch.advantages[i] != 0 || std::abs(d) > 20);
  }
  CHECK(surrogate_diagnostics(batch.input(), params).dead_gradient_fraction ==
        doctest::Approx(dead / count).epsilon(1e-12));
}

TEST_CASE("surrogate_diagnostics: raw and clamped effective sample size of four ratios") {
  const SurrogateDiagnostics got = surrogate_diagnostics(Batch::of({.5, 1, 2, 4}, {1, 1, 1, 1}).input(), {});
  CHECK(got.ess == doctest::Approx(.662).epsilon(1e-3));
  CHECK(got.ess_clamped == doctest::Approx(.976).epsilon(1e-3));
}

TEST_CASE("surrogate_diagnostics: k3 of tiny log-ratios keeps its digits") {
  Batch batch(1);
  batch.old_log_probs = {0};
  batch.log_probs = {1e-6f};
  batch.mask = {};
  CHECK(surrogate_diagnostics(batch.input(), {}).kl_k3 == doctest::Approx(.5e-12).epsilon(1e-5));
}

TEST_CASE("surrogate_diagnostics: nothing to count gives zeros") {
  Batch batch(10);
  std::fill(batch.mask.begin(), batch.mask.end(), uint8_t{0});
  for (const SurrogateDiagnostics& d : {surrogate_diagnostics(batch.input(), {}), surrogate_diagnostics({}, {})})
    for (const double x : {d.kl_k1, d.kl_k3, d.clip_fraction, d.clip_fraction_lower, d.outside_fraction,
                           d.dead_gradient_fraction, d.ess, d.ess_clamped, d.ratio_mean, d.ratio_max, d.count})
      CHECK(x == 0);
}
