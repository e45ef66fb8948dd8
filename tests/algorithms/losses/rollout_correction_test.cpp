#include "algorithms/losses/rollout_correction.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/base/errors.h"
#include "tests/algorithms/common/tokens.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

struct Corrected {
  std::vector<float> weights;
  std::vector<uint8_t> kept;
  OffPolicyMetrics metrics;
};

Corrected correct(const Tokens& tokens, const RolloutCorrection& params) {
  Corrected out{
      std::vector<float>(tokens.log_probs.size(), kNaN), std::vector<uint8_t>(tokens.log_probs.size(), 7), {}};
  out.metrics = rollout_correction(tokens.log_probs, tokens.old_log_probs, tokens.sequences(), tokens.mask,
                                   tokens.advantages, params, out.weights, out.kept);
  return out;
}

RolloutCorrection with_rules(std::string_view rules, std::string_view thresholds) {
  return {.level = WeightLevel::none, .rules = parse_rejection_rules(rules, thresholds)};
}

double l(const Tokens& tokens, std::size_t i) {
  return std::clamp(double{tokens.log_probs[i]} - double{tokens.old_log_probs[i]}, -20.0, 20.0);
}

template <class Each>
void for_sequences(const Tokens& tokens, Each each) {
  for (std::size_t sequence = 0; sequence + 1 < tokens.offsets.size(); ++sequence) {
    std::vector<std::size_t> live;
    for (auto i = static_cast<std::size_t>(tokens.offsets[sequence]);
         i < static_cast<std::size_t>(tokens.offsets[sequence + 1]); ++i)
      if (tokens.live(i)) live.push_back(i);
    each(live);
  }
}

}  // namespace

TEST_CASE("rollout_correction: token weights are truncated ratios, 0 where masked") {
  const Tokens tokens(500, 71, 1.0f);
  const Corrected got = correct(tokens, {.level = WeightLevel::token});
  for (std::size_t i = 0; i < 500; ++i)
    REQUIRE(got.weights[i] == (tokens.live(i) ? doctest::Approx(std::min(std::exp(l(tokens, i)), 2.0)).epsilon(1e-6)
                                              : doctest::Approx(0)));
}

TEST_CASE("rollout_correction: a sequence weight is one truncated product for all tokens of the sequence") {
  const Tokens tokens(500, 72, .1f);
  const Corrected got = correct(tokens, {});
  for_sequences(tokens, [&](const std::vector<std::size_t>& live) {
    double sum = 0;
    for (const std::size_t i : live) sum += double{tokens.log_probs[i]} - double{tokens.old_log_probs[i]};
    for (const std::size_t i : live)
      REQUIRE(got.weights[i] == doctest::Approx(std::min(std::exp(sum), 2.0)).epsilon(1e-5));
  });
}

TEST_CASE("rollout_correction: without a level all weights are 1") {
  const Tokens tokens(50, 73);
  const Corrected got = correct(tokens, {.level = WeightLevel::none, .high = .5});
  for (std::size_t i = 0; i < 50; ++i) CHECK(got.weights[i] == (tokens.live(i) ? 1.0f : 0.0f));
}

TEST_CASE("rollout_correction: icepop sets to 0 what truncation clamps") {
  const Tokens tokens = Tokens::of({.1, .6, 1, 3}, {1, 1, 1, 1});
  RolloutCorrection params{.level = WeightLevel::token, .low = .5, .high = 2};
  Corrected got = correct(tokens, params);
  CHECK(got.weights[0] == .5f);
  CHECK(got.weights[3] == 2);
  params.bound = WeightBound::zero;
  got = correct(tokens, params);
  CHECK(got.weights[0] == 0);
  CHECK(got.weights[1] == doctest::Approx(.6));
  CHECK(got.weights[3] == 0);
  CHECK(got.metrics.weight_high_fraction == .25);
  CHECK(got.metrics.weight_low_fraction == .25);
}

TEST_CASE("rollout_correction: normalized weights have a mean of 1 over tokens or over sequences") {
  const Tokens tokens(400, 74, .1f);
  const Corrected by_token = correct(tokens, {.level = WeightLevel::token, .batch_normalize = true});
  double sum = 0, n = 0;
  for (std::size_t i = 0; i < 400; ++i) sum += by_token.weights[i], n += tokens.live(i);
  CHECK(sum / n == doctest::Approx(1).epsilon(1e-6));
  const Corrected by_sequence = correct(tokens, {.batch_normalize = true});
  sum = n = 0;
  for_sequences(tokens, [&](const std::vector<std::size_t>& live) {
    if (!live.empty()) sum += by_sequence.weights[live[0]], n += 1;
  });
  CHECK(sum / n == doctest::Approx(1).epsilon(1e-6));
}

TEST_CASE("rollout_correction: every rule rejects by its statistic") {
  const Tokens tokens(600, 75, .4f);
  const auto statistic = [&](char kind, std::size_t i) {
    const double x = l(tokens, i);
    return kind == '1' ? -x : kind == '2' ? x * x / 2 : std::exp(x) - 1 - x;
  };
  for (const std::string over : {"token", "seq_sum", "seq_mean", "seq_max"})
    for (const char kind : {'1', '2', '3'}) {
      if (over == "seq_max" && kind == '1') continue;
      const double bound = over == "seq_sum" ? 1.5 : over == "seq_max" ? .4 : kind == '1' ? .06 : .08;
      const std::string name = over + "_k" + kind;
      CAPTURE(name);
      const Corrected got = correct(tokens, with_rules(name, kind == '1' ? std::to_string(std::exp(-bound)) + "_" +
                                                                               std::to_string(std::exp(bound))
                                                                         : std::to_string(bound)));
      int rejected = 0, kept = 0;
      for_sequences(tokens, [&](const std::vector<std::size_t>& live) {
        double sum = 0, largest = -1e9;
        for (const std::size_t i : live) sum += statistic(kind, i), largest = std::max(largest, statistic(kind, i));
        for (const std::size_t i : live) {
          const double value = over == "token"      ? statistic(kind, i)
                               : over == "seq_sum"  ? sum
                               : over == "seq_mean" ? sum / static_cast<double>(live.size())
                                                    : largest;
          if (std::abs(std::abs(value) - bound) < 1e-5) continue;
          const bool want = value <= bound && (kind != '1' || value >= -bound);
          REQUIRE(got.kept[i] == want);
          (want ? kept : rejected) += 1;
        }
      });
      CHECK(rejected > 0);
      CHECK(kept > 0);
    }
}

TEST_CASE("rollout_correction: tokens must pass all rules, and one threshold can apply to all rules") {
  const Tokens tokens(600, 76, .4f);
  const Corrected a = correct(tokens, with_rules("token_k2", ".1")),
                  b = correct(tokens, with_rules("seq_mean_k3", ".1"));
  const Corrected both = correct(tokens, with_rules("token_k2, seq_mean_k3", ".1"));
  double lost = 0, live = 0;
  for (std::size_t i = 0; i < 600; ++i) {
    CHECK(both.kept[i] == (a.kept[i] & b.kept[i]));
    lost += tokens.live(i) && !both.kept[i], live += tokens.live(i);
  }
  CHECK(both.metrics.rejected_token_fraction == doctest::Approx(lost / live));
}

TEST_CASE("rollout_correction: thresholds of k1 are ratios; a single number also sets its inverse") {
  const RejectionRule two = parse_rejection_rules("token_k1", "0.5_3.0")[0];
  CHECK(two.low == doctest::Approx(std::log(.5)));
  CHECK(two.high == doctest::Approx(std::log(3)));
  const RejectionRule one = parse_rejection_rules("seq_mean_k1", "4")[0];
  CHECK(one.low == doctest::Approx(-std::log(4)));
  CHECK(one.high == doctest::Approx(std::log(4)));
  CHECK(parse_rejection_rules("", "").empty());
  // The statistic is -l: a token five times as likely under the trainer's policy is below ln 0.5.
  CHECK(correct(Tokens::of({5}, {1}), with_rules("token_k1", "0.5_100")).kept[0] == 0);
  CHECK(correct(Tokens::of({.2}, {1}), with_rules("token_k1", "0.5_100")).kept[0] == 1);
}

TEST_CASE("rollout_correction: invalid rules are rejected with the wrong part") {
  const auto refused = [](const char* rules, const char* thresholds, const char* text) {
    CHECK_THROWS_WITH_AS(parse_rejection_rules(rules, thresholds), doctest::Contains(text), ConfigError);
  };
  refused("token_k4", "1", "unknown rule \"token_k4\", did you mean \"token_k1\"?");
  refused("seq_max_k1", "1", "unknown rule");
  refused("token_k1,token_k2", "1,2,3", "2 rules and 3 thresholds");
  refused("token_k1", "", "1 rules and 0 thresholds");
  refused("token_k2", "0.5_2", "one upper bound for k2 and k3");
  refused("token_k1", "2_0.5", "LOW at most HIGH");
  refused("token_k1", "0.5_x", "expected a number above 0");
  refused("token_k2", "-1", "expected a number above 0");
}

TEST_CASE("rollout_correction: opsm rejects negative advantages in sequences that the policy has moved away from") {
  Tokens tokens = Tokens::of({.5, .5, 1, 1, .5, .5}, {-1, -1, -1, -1, 1, 1});
  tokens.offsets = {0, 2, 4, 6};
  const Corrected got = correct(tokens, {.level = WeightLevel::none, .opsm_delta = 1e-4});
  CHECK(got.kept == std::vector<uint8_t>{0, 0, 1, 1, 1, 1});
  CHECK(got.metrics.rejected_sequence_fraction == doctest::Approx(1.0 / 3));
}

TEST_CASE("rollout_correction: opsm keeps the tokens of positive advantage in a sequence that it masks") {
  Tokens tokens = Tokens::of({.5, .5, .5, .5}, {-1, 1, 0, -1});
  tokens.offsets = {0, 4};
  const Corrected got = correct(tokens, {.level = WeightLevel::none, .opsm_delta = 1e-4});
  CHECK(got.kept == std::vector<uint8_t>{0, 1, 1, 0});
  CHECK(got.metrics.rejected_token_fraction == doctest::Approx(0.5));
}

TEST_CASE("rollout_correction: metrics agree with float64 loops") {
  const Tokens tokens(800, 77, .2f);
  const OffPolicyMetrics got = correct(tokens, {.level = WeightLevel::token}).metrics;
  double n = 0, kl = 0, k3 = 0, chi2 = 0, w = 0, w2 = 0, c = 0, c2 = 0;
  for (std::size_t i = 0; i < 800; ++i) {
    if (!tokens.live(i)) continue;
    const double x = l(tokens, i), r = std::exp(x), clamped = std::clamp(r, .5, 2.0);
    n += 1, kl -= x, k3 += r - 1 - x, chi2 += r * r - 1, w += r, w2 += r * r, c += clamped, c2 += clamped * clamped;
  }
  CHECK(got.kl == doctest::Approx(kl / n).epsilon(1e-9));
  CHECK(got.k3_kl == doctest::Approx(k3 / n).epsilon(1e-9));
  CHECK(got.chi2_token == doctest::Approx(chi2 / n).epsilon(1e-9));
  CHECK(got.weight_mean == doctest::Approx(w / n).epsilon(1e-9));
  CHECK(got.weight_std == doctest::Approx(std::sqrt(w2 / n - w * w / n / n)).epsilon(1e-9));
  CHECK(got.ess == doctest::Approx(c * c / (n * c2)).epsilon(1e-9));
  double sequences = 0, chi2_seq = 0, training = 0, rollout = 0, ratio = 0;
  for_sequences(tokens, [&](const std::vector<std::size_t>& live) {
    if (live.empty()) return;
    double a = 0, b = 0;
    for (const std::size_t i : live) a -= tokens.log_probs[i], b -= tokens.old_log_probs[i];
    const auto size = static_cast<double>(live.size());
    sequences += 1, chi2_seq += std::exp(2 * (b - a)) - 1, training += std::exp(a / size),
        rollout += std::exp(b / size);
    ratio += std::exp((a - b) / size);
  });
  CHECK(got.chi2_seq == doctest::Approx(chi2_seq / sequences).epsilon(1e-6));
  CHECK(got.training_ppl == doctest::Approx(training / sequences).epsilon(1e-9));
  CHECK(got.rollout_ppl == doctest::Approx(rollout / sequences).epsilon(1e-9));
  CHECK(got.ppl_ratio == doctest::Approx(ratio / sequences).epsilon(1e-9));
}

TEST_CASE("rollout_correction: masked NaN does not affect results; without unmasked tokens they are 0") {
  Tokens tokens(300, 78);
  RolloutCorrection params{
      .batch_normalize = true, .rules = parse_rejection_rules("token_k1,seq_max_k3", "2,1"), .opsm_delta = .1};
  const Corrected clean = correct(tokens, params);
  for (std::size_t i = 0; i < 300; ++i)
    if (!tokens.mask[i]) tokens.log_probs[i] = kNaN, tokens.old_log_probs[i] = kInf, tokens.advantages[i] = kNaN;
  const Corrected got = correct(tokens, params);
  CHECK(got.weights == clean.weights);
  CHECK(got.kept == clean.kept);
  CHECK(got.metrics.chi2_seq == clean.metrics.chi2_seq);
  std::ranges::fill(tokens.mask, uint8_t{0});
  const OffPolicyMetrics none = correct(tokens, params).metrics;
  CHECK(none.kl == 0);
  CHECK(none.ess == 0);
  CHECK(none.rejected_token_fraction == 0);
}

TEST_CASE("rollout_correction: wrong sizes are rejected") {
  Tokens tokens(4);
  std::vector<float> weights(3);
  std::vector<uint8_t> kept(4);
  CHECK_THROWS_AS(rollout_correction(tokens.log_probs, tokens.old_log_probs, tokens.sequences(), tokens.mask, {}, {},
                                     weights, kept),
                  InvariantError);
  tokens.advantages.pop_back();
  CHECK_THROWS_AS(correct(tokens, {.opsm_delta = 1}), InvariantError);
  CHECK_THROWS_AS(correct(tokens, {.low = 3, .high = 2}), InvariantError);
}
