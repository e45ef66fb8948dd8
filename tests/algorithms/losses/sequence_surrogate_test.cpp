// GSPO, GMPO, Clip-Cov and KL-Cov.

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "algorithms/losses/surrogate.h"
#include "tests/algorithms/common/tokens.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Log-ratios in double, changed at one token, so that a finite difference is accurate.
struct Moved {
  const Tokens& tokens;
  std::size_t token = 0;
  double by = 0;
  double log_ratio(std::size_t i) const { return tokens.log_ratio(i) + (i == token ? by : 0.0); }
};

template <class SequenceLoss>
double total(const Moved& moved, SequenceLoss sequence_loss) {
  double sum = 0;
  for (std::size_t sequence = 0; sequence + 1 < moved.tokens.offsets.size(); ++sequence)
    sum += moved.tokens.sequence_weights[sequence] *
           sequence_loss(moved, static_cast<std::size_t>(moved.tokens.offsets[sequence]),
                         static_cast<std::size_t>(moved.tokens.offsets[sequence + 1]));
  return sum;
}

// The sum of the clipped loss over a sequence's tokens, with the sequence's ratio.
double gspo_sequence(const Moved& moved, std::size_t begin, std::size_t end) {
  double sum = 0, n = 0, loss = 0;
  for (std::size_t i = begin; i < end; ++i)
    if (moved.tokens.live(i)) sum += moved.log_ratio(i), n += 1;
  const double s = std::exp(std::min(sum / std::max(n, 1.0), 10.0));
  for (std::size_t i = begin; i < end; ++i) {
    if (!moved.tokens.live(i)) continue;
    const double a = moved.tokens.advantages[i];
    loss += std::max(-a * s, -a * std::clamp(s, .97, 1.04));
  }
  return loss;
}

double geo_mean_sequence(const Moved& moved, std::size_t begin, std::size_t end) {
  double mu = 0, a = 0, weight = 0, n = 0;
  for (std::size_t i = begin; i < end; ++i) {
    if (!moved.tokens.live(i)) continue;
    const double advantage = moved.tokens.advantages[i], d = moved.log_ratio(i);
    const double sign = (advantage > 0) - (advantage < 0);
    mu += sign * std::min(sign * d, sign * std::clamp(d, -.3, .4));
    a += advantage, n += 1;
    weight += std::log(moved.tokens.weight(i) + 1e-10);
  }
  return n == 0 ? 0.0 : -a / n * std::exp(mu / n) * std::exp(weight / n) * n;
}

// Gives all tokens of a sequence the same advantage.
void level_advantages(Tokens& tokens) {
  for (std::size_t sequence = 0; sequence + 1 < tokens.offsets.size(); ++sequence)
    for (int64_t i = tokens.offsets[sequence]; i < tokens.offsets[sequence + 1]; ++i)
      tokens.advantages[i] = tokens.advantages[tokens.offsets[sequence]];
}

Tokens weighted_tokens(int64_t n, uint64_t seed) {
  Tokens tokens(n, seed, .3f);
  Rng random(seed);
  for (int64_t sequence = 0; sequence < tokens.sequences().count(); ++sequence)
    tokens.sequence_weights.push_back(random.uniform());
  return tokens;
}

template <class SequenceLoss>
void check_against(const Surrogate& surrogate, const Tokens& tokens, SequenceLoss sequence_loss) {
  const Result got = run(surrogate, tokens.input());
  CHECK(got.sums.loss == doctest::Approx(total({tokens}, sequence_loss)).epsilon(1e-5));
  constexpr double h = 1e-6;
  for (std::size_t i = 0; i < tokens.log_probs.size(); ++i) {
    const double left = (total({tokens, i, 0}, sequence_loss) - total({tokens, i, -h}, sequence_loss)) / h;
    const double right = (total({tokens, i, h}, sequence_loss) - total({tokens, i, 0}, sequence_loss)) / h;
    if (std::abs(left - right) > 1e-3 * (1 + std::abs(left))) continue;  // not differentiable here
    REQUIRE(std::abs(got.grad[i] - (left + right) / 2) <= 1e-5 * (1 + std::abs(left)));
  }
}

double covariance(const Tokens& tokens, std::size_t i) {
  double a = 0, l = 0, n = 0;
  for (std::size_t k = 0; k < tokens.log_probs.size(); ++k)
    if (tokens.live(k)) a += tokens.advantages[k], l += tokens.log_probs[k], n += 1;
  return (tokens.advantages[i] - a / n) * (tokens.log_probs[i] - l / n);
}

}  // namespace

TEST_CASE("gspo: loss and gradient agree with the sequence loss and its finite differences") {
  on_every_isa([] {
    for (const int64_t n : {1, 60, 400}) {
      Tokens tokens = weighted_tokens(n, 31);
      level_advantages(tokens);
      check_against(surrogate_with("gspo", {{"clip_low", .03}, {"clip_high", .04}}), tokens, gspo_sequence);
    }
  });
}

TEST_CASE("gspo: the token form uses each token's own advantage") {
  const Tokens tokens = weighted_tokens(300, 32);
  const Result got = run(surrogate_with("gspo", {{"clip", double{kInf}}}), tokens.input());
  for (std::size_t sequence = 0; sequence + 1 < tokens.offsets.size(); ++sequence) {
    double sum = 0, n = 0;
    for (auto i = static_cast<std::size_t>(tokens.offsets[sequence]);
         i < static_cast<std::size_t>(tokens.offsets[sequence + 1]); ++i)
      if (tokens.live(i)) sum += tokens.log_ratio(i), n += 1;
    for (auto i = static_cast<std::size_t>(tokens.offsets[sequence]);
         i < static_cast<std::size_t>(tokens.offsets[sequence + 1]); ++i)
      if (tokens.live(i))
        REQUIRE(got.grad[i] ==
                doctest::Approx(-tokens.sequence_weights[sequence] * tokens.advantages[i] * std::exp(sum / n))
                    .epsilon(1e-5));
  }
}

TEST_CASE("gspo: a mean log-ratio above 10 is clamped to 10, without gradient") {
  Tokens tokens = Tokens::of({1, 1}, {-1, -1});
  tokens.log_probs = {30, 0};
  const Result got = run(surrogate_with("gspo"), tokens.input());
  CHECK(got.loss[0] == doctest::Approx(std::exp(10.0)));
  CHECK(got.grad[0] == 0);
  tokens.log_probs = {20, 0};
  CHECK(run(surrogate_with("gspo"), tokens.input()).grad[0] == doctest::Approx(std::exp(10.0)));
}

TEST_CASE("gspo: without sequences all tokens are one sequence") {
  const Tokens tokens = Tokens::of({2, 1}, {1, 1});
  SurrogateInput in = tokens.input();
  in.sequences.reset();
  CHECK(run(surrogate_with("gspo", {{"clip", double{kInf}}}), in).loss[1] == doctest::Approx(-std::sqrt(2)));
}

TEST_CASE("geo_mean: loss and gradient agree with the sequence loss and its finite differences") {
  on_every_isa([] {
    for (const int64_t n : {1, 60, 400}) {
      Tokens tokens = weighted_tokens(n, 33);
      const Surrogate surrogate = surrogate_with("gmpo", {{"clip_low", .3}, {"clip_high", .4}});
      check_against(surrogate, tokens, geo_mean_sequence);
      for (int64_t i = 0; i < n; ++i) tokens.rollout_weights.push_back(.5f + static_cast<float>(i % 5));
      check_against(surrogate, tokens, geo_mean_sequence);
    }
  });
}

TEST_CASE("geo_mean: a mean log-ratio above 20 is bounded, without a gradient") {
  for (const float d : {19.5f, 20.5f, 89.0f, 800.0f, 1e6f}) {
    const std::vector<float> log_probs = {d, d}, old = {0, 0}, advantages = {-100, -100};
    std::vector<float> loss(2), grad(2);
    const std::vector<int64_t> offsets = {0, 2};
    SurrogateInput in;
    in.log_probs = log_probs;
    in.old_log_probs = old;
    in.advantages = advantages;
    in.sequences = TokenSequences(offsets);
    surrogate_with("geo_mean", {})(in, {loss, grad});
    CHECK(loss[0] == doctest::Approx(100 * std::exp(std::min(double{d}, 20.0))).epsilon(1e-5));
    CHECK((grad[0] != 0) == (d < 20));
    CHECK(std::isfinite(grad[0]));
  }
}

TEST_CASE(
    "geo_mean: with sequences weighted equally the loss is the mean of -A R over the sequences that have tokens") {
  Tokens tokens(200, 34, .3f);
  const TokenSequences sequences = tokens.sequences();
  tokens.sequence_weights.resize(static_cast<std::size_t>(sequences.count()));
  aggregation_weights(Aggregation::seq_mean_token_mean, sequences, tokens.mask, {}, tokens.sequence_weights);
  double sum = 0, count = 0;
  for (std::size_t sequence = 0; sequence + 1 < tokens.offsets.size(); ++sequence) {
    const auto begin = static_cast<std::size_t>(tokens.offsets[sequence]),
               end = static_cast<std::size_t>(tokens.offsets[sequence + 1]);
    double n = 0;
    for (std::size_t i = begin; i < end; ++i) n += tokens.live(i);
    if (n == 0) continue;
    sum += geo_mean_sequence({tokens}, begin, end) / n, count += 1;
  }
  const SurrogateSums got = surrogate_with("geo_mean", {{"clip_low", .3}, {"clip_high", .4}})(tokens.input(), {});
  CHECK(got.loss == doctest::Approx(sum / count).epsilon(1e-6));
}

TEST_CASE("clip_cov: selected tokens have no loss and gradient, the others are as for clip") {
  const Tokens tokens(4000, 35);
  const Settings settings = {{"fraction", .01}, {"cov_low", .5}, {"cov_high", 3.0}};
  const Result clip = run(surrogate_with("clip"), tokens.input());
  SurrogateInput in = tokens.input();
  std::set<std::vector<std::size_t>> draws;
  for (const uint64_t key : {1u, 2u, 3u}) {
    in.key = key;
    const Result got = run(surrogate_with("clip_cov", settings), in);
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < 4000; ++i) {
      if (got.loss[i] == clip.loss[i] && got.grad[i] == clip.grad[i]) continue;
      REQUIRE(tokens.live(i));
      REQUIRE(got.loss[i] == 0);
      REQUIRE(got.grad[i] == 0);
      REQUIRE(clip.grad[i] != 0);  // clipping was not active
      REQUIRE(covariance(tokens, i) > .5 - 1e-6);
      REQUIRE(covariance(tokens, i) < 3 + 1e-6);
      chosen.push_back(i);
    }
    const auto live = std::ranges::count(tokens.mask, uint8_t{1});
    CHECK(chosen.size() == static_cast<std::size_t>(.01 * static_cast<double>(live)));
    CHECK(got.sums.clipped == static_cast<double>(chosen.size()));
    CHECK(run(surrogate_with("clip_cov", settings), in).loss == got.loss);
    draws.insert(chosen);
  }
  CHECK(draws.size() == 3);
}

TEST_CASE("clip_cov: every candidate is drawn equally often; without candidates it equals clip") {
  const Tokens tokens(200, 36);
  SurrogateInput in = tokens.input();
  const Result clip = run(surrogate_with("clip"), in);
  std::vector<int> times(200);
  for (uint64_t key = 0; key < 3000; ++key) {
    in.key = key;
    const Result got = run(surrogate_with("clip_cov", {{"cov_low", 0.0}, {"cov_high", 100.0}}), in);
    for (std::size_t i = 0; i < 200; ++i) times[i] += got.grad[i] != clip.grad[i];
  }
  const auto candidates = std::ranges::count_if(times, [](int t) { return t > 0; });
  REQUIRE(candidates > 20);
  for (const int t : times)
    if (t > 0)
      CHECK(std::abs(t - 3000.0 / static_cast<double>(candidates)) <
            5 * std::sqrt(3000.0 / static_cast<double>(candidates)));
  const Result none = run(surrogate_with("clip_cov", {{"cov_low", 1e6}, {"cov_high", 1e7}}), in);
  CHECK(none.loss == clip.loss);
}

TEST_CASE("kl_cov: tokens with the largest covariance get the penalty, the others -A r") {
  for (const double fraction : {2e-4, .01, .5, 1.0}) {
    const Tokens tokens(1500, 37);
    const Result plain = run(surrogate_with("none"), tokens.input());
    const Result got = run(surrogate_with("kl_cov", {{"fraction", fraction}, {"ppo_kl_coef", .5}}), tokens.input());
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < 1500; ++i)
      if (tokens.live(i)) order.emplace_back(-static_cast<float>(covariance(tokens, i)), i);
    std::ranges::sort(order);
    const auto wanted =
        std::max<std::size_t>(1, static_cast<std::size_t>(fraction * static_cast<double>(order.size())));
    std::set<std::size_t> chosen;
    for (std::size_t k = 0; k < wanted; ++k) chosen.insert(order[k].second);
    for (std::size_t i = 0; i < 1500; ++i) {
      const double d = tokens.live(i) ? tokens.log_ratio(i) : 0.0, sign = (d > 0) - (d < 0);
      const double penalty = chosen.contains(i) ? .5 : 0.0;
      REQUIRE(got.loss[i] == doctest::Approx(plain.loss[i] + penalty * std::abs(d)).epsilon(1e-5));
      REQUIRE(got.grad[i] == doctest::Approx(plain.grad[i] + penalty * sign).epsilon(1e-5));
    }
    CHECK(got.sums.clipped == static_cast<double>(wanted));
  }
}

TEST_CASE("kl_cov: among equal covariances the first tokens are selected") {
  Tokens tokens = Tokens::of({2, 2, 2, 2, 2}, {1, 1, 1, 1, 1});
  const Result got = run(surrogate_with("kl_cov", {{"fraction", .4}, {"kl_coef", 1.0}}), tokens.input());
  CHECK(got.grad[0] == doctest::Approx(-1));
  CHECK(got.grad[1] == doctest::Approx(-1));
  CHECK(got.grad[2] == doctest::Approx(-2));
}
