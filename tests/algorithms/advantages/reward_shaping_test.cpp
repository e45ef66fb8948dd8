#include "algorithms/advantages/reward_shaping.h"

#include <cmath>
#include <vector>

#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<float> shaped(const TokenSequences& sequences, const std::vector<float>& scores,
                          const std::vector<float>& kl, const std::vector<uint8_t>& mask,
                          const RewardShaping& shaping) {
  std::vector<float> out(static_cast<std::size_t>(sequences.tokens()), kNaN);
  shape_rewards(sequences, scores, kl, mask, shaping, out);
  return out;
}

std::vector<float> penalties(const std::vector<int64_t>& lengths, const OverlongPenalty& penalty) {
  std::vector<float> out(lengths.size(), kNaN);
  overlong_penalty(lengths, penalty, out);
  return out;
}

}  // namespace

TEST_CASE("reward_shaping: the score goes to the last unmasked token, the penalty to all") {
  const std::vector<float> got = shaped(TokenSequences(2, 4), {3, 5}, {1, 2, 3, kNaN, kNaN, 1, kNaN, kNaN},
                                        {1, 1, 1, 0, 0, 1, 0, 0}, {.kl_coef = 0.5});
  CHECK(got == std::vector<float>{-0.5, -1, 1.5, 0, 0, 4.5, 0, 0});
}

TEST_CASE("reward_shaping: the score of a sequence without unmasked tokens is ignored") {
  CHECK(shaped(TokenSequences(2, 2), {3, 5}, {}, {0, 0, 1, 1}, {}) == std::vector<float>{0, 0, 0, 5});
}

TEST_CASE("reward_shaping: sequences of different lengths, including empty ones") {
  const std::vector<int64_t> offsets = {0, 2, 2, 5};
  CHECK(shaped(TokenSequences(offsets), {1, 2, 3}, {}, {}, {}) == std::vector<float>{0, 1, 0, 0, 3});
  CHECK(shaped(TokenSequences(0, 4), {}, {}, {}, {}).empty());
}

TEST_CASE("reward_shaping: only the score is clamped") {
  const RewardShaping shaping{.kl_coef = 1, .score_low = -5, .score_high = 5};
  CHECK(shaped(TokenSequences(3, 1), {9, -9, 2}, {100, 100, -100}, {}, shaping) == std::vector<float>{-95, -105, 102});
}

TEST_CASE("reward_shaping: with a coefficient of 0, an infinite KL is not read") {
  CHECK(shaped(TokenSequences(1, 1), {1}, {static_cast<float>(kInf)}, {}, {}) == std::vector<float>{1});
}

TEST_CASE("reward_shaping: scores per token stay at their tokens") {
  const std::vector<float> scores = {1, 20, kNaN, 4}, kl = {1, 1, kNaN, 1};
  const std::vector<uint8_t> mask = {1, 1, 0, 1};
  std::vector<float> out(4, kNaN);
  shape_token_rewards(scores, kl, mask, {.kl_coef = 0.5, .score_high = 10}, out);
  CHECK(out == std::vector<float>{0.5, 9.5, 0, 3.5});
}

TEST_CASE("reward_shaping: a NaN score appears in the rewards") {
  CHECK(std::isnan(shaped(TokenSequences(1, 1), {kNaN}, {}, {}, {.score_low = -1, .score_high = 1})[0]));
}

TEST_CASE("reward_shaping: invalid sizes, bounds and coefficients are rejected") {
  CHECK_THROWS_AS(shaped(TokenSequences(2, 2), {1}, {}, {}, {}), InvariantError);
  CHECK_THROWS_AS(shaped(TokenSequences(1, 2), {1}, {1}, {}, {}), InvariantError);
  CHECK_THROWS_AS(shaped(TokenSequences(1, 2), {1}, {}, {1}, {}), InvariantError);
  CHECK_THROWS_AS(shaped(TokenSequences(1, 2), {1}, {}, {}, {.kl_coef = -1}), InvariantError);
  CHECK_THROWS_AS(shaped(TokenSequences(1, 2), {1}, {}, {}, {.score_low = 2, .score_high = 1}), InvariantError);
  CHECK_THROWS_AS(shaped(TokenSequences(1, 2), {1}, {}, {}, {.score_low = kNaN}), InvariantError);
}

TEST_CASE("reward_shaping: the overlong penalty grows over the buffer; beyond it, it can be bounded") {
  const std::vector<int64_t> lengths = {0, 80, 90, 100, 140};
  CHECK(penalties(lengths, {.max_length = 100, .buffer = 20, .factor = 2}) == std::vector<float>{0, 0, -1, -2, -6});
  CHECK(penalties(lengths, {.max_length = 100, .buffer = 20, .factor = 2, .bounded = true}) ==
        std::vector<float>{0, 0, -1, -2, -2});
  CHECK_FALSE(std::signbit(penalties(lengths, {.max_length = 100, .buffer = 20})[0]));
  CHECK_THROWS_AS(penalties({1}, {.max_length = 100, .buffer = 0}), InvariantError);
  CHECK_THROWS_AS(penalties({1}, {.max_length = 10, .buffer = 20}), InvariantError);
  CHECK_THROWS_AS(penalties({-1}, {.max_length = 30, .buffer = 20}), InvariantError);
}

TEST_CASE("reward_shaping: the score of a truncated answer is scaled down or replaced") {
  const std::vector<uint8_t> truncated = {0, 1};
  const auto run = [&](double coefficient) {
    std::vector<float> scores = {4, 8};
    penalize_truncated(scores, truncated, coefficient);
    return scores;
  };
  CHECK(run(0.25) == std::vector<float>{4, 2});
  CHECK(run(0) == std::vector<float>{4, 0});
  CHECK(run(-3) == std::vector<float>{4, -3});
  CHECK_THROWS_AS(run(1.5), InvariantError);
  CHECK_THROWS_AS(run(kNaN), InvariantError);
}
