#include "algorithms/losses/surrogate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/errors.h"
#include "tests/algorithms/common/tokens.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

struct Point {
  double d, advantage, log_prob;
  double ratio() const { return std::exp(std::clamp(d, -20.0, 20.0)); }
  bool beyond() const { return std::abs(d) > 20; }
};

struct Want {
  double loss, grad;
};

// A surrogate as defined in its paper, in double, for one token.
using Oracle = std::function<Want(const Point&)>;

Oracle clip_oracle(double low, double high, double dual) {
  return [=](const Point& p) {
    const double r = p.ratio(), a = p.advantage;
    double loss = std::max(-a * r, -a * std::clamp(r, 1 - low, 1 + high));
    if (dual > 0 && a < 0) loss = std::min(loss, -a * dual);
    const bool dead = (r > 1 + high && a > 0) || (r < 1 - low && a < 0) || (dual > 0 && a < 0 && r > dual);
    return Want{loss, dead || p.beyond() ? 0.0 : -a * r};
  };
}

Oracle weighted_oracle(std::function<double(const Point&)> weight) {
  return [=](const Point& p) {
    const double value = -p.advantage * p.ratio() * weight(p);
    return Want{value, p.beyond() ? 0.0 : value};
  };
}

Oracle soft_clip_oracle(double alpha, bool dynamic = false) {
  return weighted_oracle([=](const Point& p) {
    const double exponent = dynamic ? alpha * (1 + 1 / (1 + std::exp(p.advantage))) : alpha;
    return std::pow(std::min(p.ratio(), 1 / p.ratio()), exponent);
  });
}

Oracle sapo_oracle(double positive, double negative, double ratio_min, double ratio_max) {
  return [=](const Point& p) {
    const double r = std::clamp(p.ratio(), ratio_min, ratio_max), tau = p.advantage > 0 ? positive : negative;
    const double x = tau * (r - 1), gate = 1 / (1 + std::exp(-x)), other = 1 / (1 + std::exp(x));
    const bool flat = p.beyond() || std::exp(p.d) < ratio_min || std::exp(p.d) > ratio_max;
    return Want{-p.advantage * 4 / tau * gate, flat ? 0.0 : -p.advantage * 4 * gate * other * r};
  };
}

Oracle ce_gppo_oracle(double clip, double beta1, double beta2, double dual = 0) {
  return [=](const Point& p) {
    const double r = p.ratio(), a = p.advantage;
    double value = -a * r;
    if (r < 1 - clip && a < 0) value = -beta1 * (1 - clip) * a;
    if (r > 1 + clip && a > 0) value = -beta2 * (1 + clip) * a;
    if (dual > 0 && a < 0 && value > -a * dual) return Want{-a * dual, 0.0};
    return Want{value, p.beyond() ? 0.0 : value};
  };
}

Oracle cispo_oracle(double low, double high, bool ratio_form) {
  return [=](const Point& p) {
    const double slope = -p.advantage * std::clamp(p.ratio(), 1 - low, 1 + high);
    return Want{ratio_form ? slope : slope * p.log_prob, ratio_form && p.beyond() ? 0.0 : slope};
  };
}

Want log_prob_oracle(const Point& p) { return {-p.advantage * p.log_prob, -p.advantage}; }

struct Case {
  std::string name;
  Settings settings;
  Oracle oracle;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"clip", {}, clip_oracle(.2, .2, 0)},
      {"ppo", {{"clip", .1}}, clip_oracle(.1, .1, 0)},
      {"vanilla", {{"clip_low", .1}, {"clip_high", .4}, {"dual_clip", 3.0}}, clip_oracle(.1, .4, 3)},
      {"clip", {{"clip", double{kInf}}, {"dual_clip", 1.5}}, clip_oracle(kInf, kInf, 1.5)},
      {"clip", {{"clip", 0.0}}, clip_oracle(0, 0, 0)},
      {"clip_higher", {}, clip_oracle(.2, .28, 0)},
      {"dual_clip", {}, clip_oracle(.2, .2, 3)},
      {"dual_clip", {{"clip_ratio_c", 1.5}, {"clip_ratio_low", .3}}, clip_oracle(.3, .2, 1.5)},
      {"soft_clip", {}, soft_clip_oracle(1)},
      {"soft_clip_alpha-2", {}, soft_clip_oracle(2)},
      {"soft_clip", {{"soft_clip_alpha", .5}}, soft_clip_oracle(.5)},
      {"soft_clip", {{"alpha", 0.0}}, soft_clip_oracle(0)},
      {"soft_clip", {{"dynamic_alpha", true}}, soft_clip_oracle(1, true)},
      {"sapo", {}, sapo_oracle(1, 1.05, 0, kInf)},
      {"sapo_gate", {{"tau_pos", 3.0}, {"tau_neg", .5}}, sapo_oracle(3, .5, 0, kInf)},
      {"sapo", {{"ratio_min", .7}, {"ratio_max", 1.4}}, sapo_oracle(1, 1.05, .7, 1.4)},
      {"ce_gppo", {}, ce_gppo_oracle(.2, .75, 1)},
      {"ce-gppo_clip", {{"beta1", .25}, {"beta2", .5}}, ce_gppo_oracle(.2, .25, .5)},
      {"ce_gppo", {{"dual_clip", 3.0}}, ce_gppo_oracle(.2, .75, 1, 3)},
      {"cispo", {}, cispo_oracle(kInf, .2, false)},
      {"is_weight_clip", {{"eps_is_high", 4.0}, {"form", "ratio"}}, cispo_oracle(kInf, 4, true)},
      {"cispo", {{"verl_compat", true}}, cispo_oracle(.2, .2, false)},
      {"cispo", {{"clip_low", .3}, {"clip_high", .1}}, cispo_oracle(.3, .1, false)},
      {"gpg", {}, log_prob_oracle},
      {"reinforce", {}, log_prob_oracle},
      {"gipo", {}, weighted_oracle([](const Point& p) { return std::exp(-.5 * std::pow(std::log(p.ratio()), 2)); })},
      {"log_gauss_clip", {{"sigma", .5}}, weighted_oracle([](const Point& p) {
         return std::exp(-2 * std::pow(std::log(p.ratio()), 2));
       })},
      {"none", {}, weighted_oracle([](const Point&) { return 1.0; })},
      {"no_clip", {}, weighted_oracle([](const Point&) { return 1.0; })},
  };
  return all;
}

// The last bit of a ratio can decide on which side of a bound it is.
bool near_bound(const Tokens& tokens, std::size_t i) {
  for (const double bound : {.5, .6, .7, .8, .9, 1.0, 1.1, 1.2, 1.28, 1.4, 1.5, 3.0, 5.0})
    if (tokens.log_ratio(i) != 0 && std::abs(tokens.log_ratio(i) - std::log(bound)) < 1e-6) return true;
  return false;
}

void check(const Case& c, const Tokens& tokens) {
  CAPTURE(c.name);
  const Result got = run(surrogate_with(c.name, c.settings), tokens.input());
  for (std::size_t i = 0; i < tokens.log_probs.size(); ++i) {
    if (!tokens.live(i)) {
      REQUIRE(got.loss[i] == 0);
      REQUIRE(got.grad[i] == 0);
      continue;
    }
    if (near_bound(tokens, i)) continue;
    const Want want = c.oracle({tokens.log_ratio(i), tokens.advantages[i], tokens.log_probs[i]});
    const double weight = tokens.weight(i);
    REQUIRE(std::abs(got.loss[i] - weight * want.loss) <= 4e-6 * (1e-3 + std::abs(weight * want.loss)));
    REQUIRE(std::abs(got.grad[i] - weight * want.grad) <= 4e-6 * (1e-3 + std::abs(weight * want.grad)));
  }
}

// The ratio that the kernel computes for a log-ratio.
float kernel_ratio(float d) {
  Tokens tokens = Tokens::of({1}, {-1});
  tokens.log_probs = {d};
  return run_clip(tokens, {}, "none").loss[0];
}

}  // namespace

TEST_CASE("surrogate: loss and gradient of all per-token surrogates agree with a float64 oracle, on every ISA") {
  on_every_isa([] {
    for (const int64_t n : {0, 1, 127, 128, 129, 1500})
      for (const float spread : {0.0f, 0.3f, 3.0f, 15.0f})
        for (const Case& c : cases()) check(c, Tokens(n, static_cast<uint64_t>(n) + 7, spread));
  });
}

TEST_CASE("surrogate: if no factor is held constant, the gradient is the finite difference of the loss") {
  for (const char* name : {"clip", "dual_clip", "sapo", "gpg", "reinforce", "none"}) {
    CAPTURE(name);
    const Case& c = *std::ranges::find(cases(), name, &Case::name);
    const Tokens tokens(500, 5);
    const Result got = run(surrogate_with(name), tokens.input());
    constexpr double h = 1e-5;
    for (std::size_t i = 0; i < 500; ++i) {
      if (!tokens.live(i) || near_bound(tokens, i)) continue;
      const auto loss = [&](double by) {
        return c.oracle({tokens.log_ratio(i) + by, tokens.advantages[i], tokens.log_probs[i] + by}).loss;
      };
      const double left = (loss(0) - loss(-h)) / h, right = (loss(h) - loss(0)) / h;
      if (std::abs(left - right) > 1e-3 * (1 + std::abs(left))) continue;  // not differentiable here
      REQUIRE(got.grad[i] == doctest::Approx((left + right) / 2).epsilon(1e-4));
    }
  }
}

TEST_CASE("surrogate: every instruction set gives identical results") {
  for (const SurrogateEntry& entry : surrogate_table()) {
    CAPTURE(entry.name);
    const Tokens tokens(3000, 9, 2.0f);
    force_isa(Isa::sse2);
    const Result first = run(surrogate_with(entry.name), tokens.input());
    on_every_isa([&] {
      const Result got = run(surrogate_with(entry.name), tokens.input());
      CHECK(got.loss == first.loss);
      CHECK(got.grad == first.grad);
      CHECK(got.sums.loss == first.sums.loss);
      CHECK(got.sums.k3 == first.sums.k3);
    });
  }
}

TEST_CASE("surrogate: a worked clip example") {
  Tokens tokens = Tokens::of({1, 1, 1}, {1, -1, 2});
  tokens.old_log_probs = {-1, -1, -1};
  tokens.log_probs = {-1.69315f, -1, -.59453f};
  const Result got = run_clip(tokens);
  CHECK(got.loss[0] == doctest::Approx(-.5).epsilon(1e-5));
  CHECK(got.loss[1] == doctest::Approx(1));
  CHECK(got.loss[2] == doctest::Approx(-2.4));
  CHECK(got.sums.loss / 3 == doctest::Approx(-.6333).epsilon(1e-4));
}

TEST_CASE("surrogate: worked examples of dual clip and clip-higher") {
  const Result got = run_clip(Tokens::of({2, 2, .5}, {2, -2, 2}), {{"dual_clip", 1.5}});
  CHECK(got.loss[0] == doctest::Approx(-2.4));
  CHECK(got.loss[1] == doctest::Approx(3.0));
  CHECK(got.loss[2] == doctest::Approx(-1.0));
  CHECK(got.grad[1] == 0);
  const Result higher = run_clip(Tokens::of({1.25, 1.3}, {1, 1}), {}, "clip_higher");
  CHECK(higher.loss[0] == doctest::Approx(-1.25));
  CHECK(higher.loss[1] == doctest::Approx(-1.28));
}

TEST_CASE("surrogate: losses and gradients at ratio 1.5 and advantage 2") {
  const auto at = [](const char* name) {
    const Result got = run_clip(Tokens::of({1.5}, {2}), {}, name);
    return std::pair{got.loss[0], got.grad[0]};
  };
  CHECK(at("clip").first == doctest::Approx(-2.4));
  CHECK(at("clip").second == 0);
  CHECK(at("soft_clip").first == doctest::Approx(-2));
  CHECK(at("soft_clip").second == doctest::Approx(-2));
  CHECK(at("sapo").first == doctest::Approx(-4.979675));
  CHECK(at("sapo").second == doctest::Approx(-2.820045));
  CHECK(at("ce_gppo").first == doctest::Approx(-2.4));
  CHECK(at("ce_gppo").second == doctest::Approx(-2.4));
}

TEST_CASE("surrogate: sapo's weight is 1 at ratio 1 for every temperature") {
  for (const double tau : {.1, 1.0, 7.0}) {
    const Result got = run_clip(Tokens::of({1}, {2}), {{"tau_pos", tau}}, "sapo");
    CHECK(got.grad[0] == doctest::Approx(-2));
    CHECK(got.loss[0] == doctest::Approx(-2 * 2 / tau));
  }
}

TEST_CASE("surrogate: ce_gppo with beta 0 has the gradients of clip") {
  const Tokens tokens(2000, 21);
  CHECK(run_clip(tokens, {{"beta1", 0.0}, {"beta2", 0.0}}, "ce_gppo").grad == run_clip(tokens).grad);
}

TEST_CASE("surrogate: exactly on a bound the gradient exists, one float beyond it is 0") {
  const auto grad = [](float d, float advantage, double low, double high, double dual) {
    Tokens tokens = Tokens::of({1}, {advantage});
    tokens.log_probs = {d};
    return run_clip(tokens, {{"clip_low", low}, {"clip_high", high}, {"dual_clip", dual}}).grad[0];
  };
  const float high = kernel_ratio(.2f), low = kernel_ratio(-.2f);  // high - 1 and 1 - low are exact
  const double inside_high = double{std::nextafter(high, 0.0f)} - 1, inside_low = 1 - double{std::nextafter(low, 1.0f)};
  CHECK(grad(.2f, 2, .2, double{high} - 1, 0) == -2 * high);
  CHECK(grad(.2f, 2, .2, inside_high, 0) == 0);
  CHECK(grad(.2f, -2, .2, inside_high, 0) == 2 * high);
  CHECK(grad(-.2f, -2, 1 - double{low}, .2, 0) == 2 * low);
  CHECK(grad(-.2f, -2, inside_low, .2, 0) == 0);
  CHECK(grad(-.2f, 2, inside_low, .2, 0) == -2 * low);
  CHECK(grad(.2f, -2, .2, .2, high) == 2 * high);
  CHECK(grad(.2f, -2, .2, .2, std::nextafter(high, 0.0f)) == 0);
  CHECK(grad(0, 3, 0, 0, 0) == -3);
}

TEST_CASE("surrogate: beyond a log-ratio of 20 there is no gradient through the ratio, at 20 there is") {
  Tokens tokens = Tokens::of({1, 1, 1, 1}, {-1, -1, 1, 1});
  tokens.log_probs = {20, 20.001f, -20, -20.001f};
  const Result got = run_clip(tokens, {}, "none");
  CHECK(got.grad[0] == doctest::Approx(std::exp(20.0)).epsilon(1e-6));
  CHECK(got.grad[1] == 0);
  CHECK(got.grad[2] == doctest::Approx(-std::exp(-20.0)).epsilon(1e-6));
  CHECK(got.grad[3] == 0);
}

TEST_CASE("surrogate: masked NaN and inf do not affect any surrogate or diagnostic") {
  for (const SurrogateEntry& entry : surrogate_table())
    for (const float poison : {kNaN, kInf, -kInf}) {
      CAPTURE(entry.name);
      Tokens tokens(700, 3);
      tokens.rollout_weights.assign(700, 1.5f);
      const Surrogate surrogate = surrogate_with(entry.name);
      const Result clean = run(surrogate, tokens.input());
      for (std::size_t i = 0; i < 700; ++i)
        if (!tokens.mask[i])
          tokens.log_probs[i] = tokens.old_log_probs[i] = tokens.advantages[i] = tokens.rollout_weights[i] = poison;
      const Result got = run(surrogate, tokens.input());
      CHECK(got.loss == clean.loss);
      CHECK(got.grad == clean.grad);
      CHECK(got.sums.loss == clean.sums.loss);
      CHECK(diagnostics_of(got.sums).kl_k3 == diagnostics_of(clean.sums).kl_k3);
      CHECK(diagnostics_of(got.sums).ess == diagnostics_of(clean.sums).ess);
      CHECK(diagnostics_of(got.sums).ratio_max == diagnostics_of(clean.sums).ratio_max);
    }
}

TEST_CASE("surrogate: an unmasked NaN appears in its loss and in the aggregate") {
  for (const SurrogateEntry& entry : surrogate_table()) {
    CAPTURE(entry.name);
    Tokens tokens = Tokens::of({1, 1}, {1, kNaN});
    const Result by_advantage = run(surrogate_with(entry.name), tokens.input());
    CHECK(std::isnan(by_advantage.sums.loss));
    if (entry.needs == SurrogateNeeds::token) {
      CHECK(std::isnan(by_advantage.loss[1]));
      CHECK(std::isnan(by_advantage.grad[1]));
      CHECK(!std::isnan(by_advantage.loss[0]));
    }
    tokens.advantages[1] = 1;
    tokens.log_probs[0] = kNaN;
    const Result by_log_prob = run(surrogate_with(entry.name), tokens.input());
    CHECK(std::isnan(by_log_prob.sums.loss));
    CHECK(std::isnan(diagnostics_of(by_log_prob.sums).kl_k3));
    CHECK(std::isnan(diagnostics_of(by_log_prob.sums).ratio_max));
  }
}

TEST_CASE("surrogate: rollout weights multiply loss and gradient") {
  Tokens tokens(900, 14);
  Rng random(4);
  for (int i = 0; i < 900; ++i) tokens.rollout_weights.push_back(2 * random.uniform());
  for (const Case& c : cases()) check(c, tokens);
}

TEST_CASE("surrogate: sequence weights multiply loss and gradient, and the sum is the aggregate") {
  for (const SurrogateEntry& entry : surrogate_table()) {
    CAPTURE(entry.name);
    Tokens tokens(1000, 15);
    const Surrogate surrogate = surrogate_with(entry.name);
    const Result plain = run(surrogate, tokens.input());
    const auto sequences = static_cast<std::size_t>(tokens.sequences().count());
    for (std::size_t i = 0; i < sequences; ++i) tokens.sequence_weights.push_back(.25 * static_cast<double>(i % 7));
    const Result got = run(surrogate, tokens.input());
    double sum = 0;
    for (std::size_t sequence = 0; sequence < sequences; ++sequence)
      for (int64_t t = tokens.offsets[sequence]; t < tokens.offsets[sequence + 1]; ++t) {
        const auto weight = static_cast<float>(tokens.sequence_weights[sequence]);
        REQUIRE(got.loss[t] == weight * plain.loss[t]);
        REQUIRE(got.grad[t] == weight * plain.grad[t]);
        sum += tokens.sequence_weights[sequence] * plain.loss[t];
      }
    CHECK(got.sums.loss == doctest::Approx(sum).epsilon(1e-12));
  }
}

TEST_CASE("surrogate: omitting outputs does not change the others") {
  for (const SurrogateEntry& entry : surrogate_table()) {
    const Tokens tokens(300, 16);
    const Surrogate surrogate = surrogate_with(entry.name);
    const Result both = run(surrogate, tokens.input());
    std::vector<float> grad(300);
    CHECK(surrogate(tokens.input(), {{}, grad}).loss == both.sums.loss);
    CHECK(grad == both.grad);
    CHECK(surrogate(tokens.input(), {}).k3 == both.sums.k3);
  }
}
