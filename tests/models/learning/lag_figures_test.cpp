// Figures of the lag against plain loops.

#include "models/learning/lag_figures.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

struct Tokens {
  std::vector<float> start, rollout;
  std::vector<int64_t> lags;
  std::vector<uint8_t> mask;
};

Tokens random_tokens(int64_t count) {
  Rng rng(derive_key(3, "tokens"));
  Tokens result;
  for (int64_t i = 0; i < count; ++i) {
    result.start.push_back(-3 * rng.uniform());
    result.rollout.push_back(result.start.back() + 0.3f * rng.normal());
    result.lags.push_back(static_cast<int64_t>(rng.below(12)));
    result.mask.push_back(static_cast<uint8_t>(rng.below(4) != 0));
  }
  return result;
}

PolicyDistance plain(const Tokens& tokens, int64_t low, int64_t high) {
  PolicyDistance sum{.ratio_min = 1e30};
  for (size_t i = 0; i < tokens.start.size(); ++i) {
    if (tokens.mask[i] == 0 || tokens.lags[i] < low || tokens.lags[i] > high) continue;
    const double ratio = std::exp(double{tokens.start[i]} - double{tokens.rollout[i]});
    sum.tokens += 1;
    sum.kl += double{tokens.rollout[i]} - double{tokens.start[i]};
    sum.ratio_mean += ratio;
    sum.ratio_min = std::min(sum.ratio_min, ratio);
    sum.ratio_max = std::max(sum.ratio_max, ratio);
  }
  sum.kl /= sum.tokens;
  sum.ratio_mean /= sum.tokens;
  return sum;
}

void check_equal(const PolicyDistance& got, const PolicyDistance& expected) {
  CHECK(got.tokens == expected.tokens);
  CHECK(got.kl == doctest::Approx(expected.kl).epsilon(1e-12));
  CHECK(got.ratio_mean == doctest::Approx(expected.ratio_mean).epsilon(1e-12));
  CHECK(got.ratio_min == expected.ratio_min);
  CHECK(got.ratio_max == expected.ratio_max);
}

}  // namespace

TEST_CASE("lag_figures: all tokens and those of each lag are those of plain loops; the last class is open") {
  const Tokens tokens = random_tokens(500);
  const LagFigures got = lag_figures(tokens.start, tokens.rollout, tokens.lags, tokens.mask);
  check_equal(got.all, plain(tokens, 0, 100));
  for (int64_t lag = 0; lag < 8; ++lag) check_equal(got.by_lag[static_cast<size_t>(lag)], plain(tokens, lag, lag));
  check_equal(got.by_lag[8], plain(tokens, 8, 100));
}

TEST_CASE("lag_shares: mean, largest and shares are those of plain loops, of the tokens of the mask") {
  const Tokens tokens = random_tokens(500);
  double count = 0, sum = 0;
  std::vector<double> of_class(kLagClasses);
  for (size_t i = 0; i < tokens.lags.size(); ++i) {
    if (tokens.mask[i] == 0) continue;
    count += 1;
    sum += static_cast<double>(tokens.lags[i]);
    of_class[static_cast<size_t>(std::min<int64_t>(tokens.lags[i], 8))] += 1;
  }
  const LagShares got = lag_shares(tokens.lags, tokens.mask);
  CHECK(got.mean == doctest::Approx(sum / count).epsilon(1e-12));
  CHECK(got.max == 11);
  for (size_t c = 0; c < kLagClasses; ++c) CHECK(got.share[c] == of_class[c] / count);
}

TEST_CASE("lag_shares: without tokens all is 0") {
  const LagShares got = lag_shares({}, {});
  CHECK(got.mean == 0);
  CHECK(got.max == 0);
  CHECK(std::ranges::all_of(got.share, [](double share) { return share == 0; }));
}

TEST_CASE("lag_figures: equal log-probabilities give exactly 0 and 1") {
  Tokens tokens = random_tokens(321);
  tokens.rollout = tokens.start;
  const LagFigures got = lag_figures(tokens.start, tokens.rollout, tokens.lags, {});
  CHECK(got.all.kl == 0.0);
  CHECK(got.all.ratio_mean == 1.0);
  CHECK(got.all.ratio_min == 1.0);
  CHECK(got.all.ratio_max == 1.0);
}

TEST_CASE("lag_figures: without tokens all is 0") {
  const std::vector<float> log_probs = {-1};
  const std::vector<int64_t> lags = {2};
  const std::vector<uint8_t> mask = {0};
  const LagFigures got = lag_figures(log_probs, log_probs, lags, mask);
  CHECK(got.all.tokens == 0);
  CHECK(got.all.ratio_max == 0);
}
