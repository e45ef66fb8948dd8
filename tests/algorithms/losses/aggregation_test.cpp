#include "algorithms/losses/aggregation.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/base/errors.h"
#include "tests/algorithms/common/tokens.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr Aggregation kModes[] = {Aggregation::token_mean, Aggregation::seq_mean_token_sum,
                                  Aggregation::seq_mean_token_mean, Aggregation::seq_mean_token_sum_norm};

double aggregated(Aggregation mode, const std::vector<float>& values, const TokenSequences& sequences,
                  std::span<const uint8_t> mask, const Normalizers& normalizers = {}) {
  std::vector<double> weights(static_cast<std::size_t>(sequences.count()));
  aggregation_weights(mode, sequences, mask, normalizers, weights);
  return aggregate(values, sequences, mask, weights);
}

// The modes by their definitions, in double.
double oracle(Aggregation mode, const Tokens& tokens, double length) {
  double all = 0, means = 0, count = 0, sequences = 0;
  for (std::size_t sequence = 0; sequence + 1 < tokens.offsets.size(); ++sequence) {
    double sum = 0, n = 0;
    for (int64_t i = tokens.offsets[sequence]; i < tokens.offsets[sequence + 1]; ++i)
      if (tokens.live(static_cast<std::size_t>(i))) sum += tokens.log_probs[i], n += 1;
    all += sum, count += n, sequences += n > 0;
    if (n > 0) means += sum / n;
  }
  if (count == 0) return 0;
  if (mode == Aggregation::token_mean) return all / count;
  if (mode == Aggregation::seq_mean_token_sum) return all / sequences;
  if (mode == Aggregation::seq_mean_token_mean) return means / sequences;
  return all / (length * sequences);
}

}  // namespace

TEST_CASE("aggregation: every mode agrees with a float64 loop") {
  for (const int64_t n : {0, 1, 50, 2000})
    for (const Aggregation mode : kModes) {
      const Tokens tokens(n, static_cast<uint64_t>(n) + 40);
      const double length = static_cast<double>(tokens.sequences().longest());
      CHECK(aggregated(mode, tokens.log_probs, tokens.sequences(), tokens.mask) ==
            doctest::Approx(oracle(mode, tokens, length)).epsilon(1e-12));
      CHECK(aggregated(mode, tokens.log_probs, tokens.sequences(), tokens.mask, {.length = 100.0}) ==
            doctest::Approx(oracle(mode, tokens, 100)).epsilon(1e-12));
    }
}

TEST_CASE("aggregation: a worked token mean, whole and over two ranks") {
  const std::vector<float> loss = {1, 2, 0, 3, 4, 5, 7, 0, 0};
  const std::vector<uint8_t> mask = {1, 1, 0, 1, 1, 1, 1, 0, 0};
  CHECK(aggregated(Aggregation::token_mean, loss, TokenSequences(3, 3), mask) == doctest::Approx(3.6666667));
  const std::vector<float> first(loss.begin(), loss.begin() + 6), second(loss.begin() + 6, loss.end());
  const std::span<const uint8_t> all(mask);
  const Normalizers shared{.tokens = 6.0, .dp_size = 2};
  const double a = aggregated(Aggregation::token_mean, first, TokenSequences(2, 3), all.first(6), shared);
  const double b = aggregated(Aggregation::token_mean, second, TokenSequences(1, 3), all.subspan(6), shared);
  CHECK((a + b) / 2 == doctest::Approx(3.6666667));
}

TEST_CASE(
    "aggregation: over any split into micro-batches and ranks it is that of the whole batch, and not the mean of "
    "means") {
  Rng random(7);
  for (int trial = 0; trial < 40; ++trial) {
    const Tokens tokens(600, static_cast<uint64_t>(trial) + 50);
    const auto sequences = static_cast<std::size_t>(tokens.sequences().count());
    const double ranks = 1 + static_cast<double>(random.below(4));
    const TokenCounts counts = count_tokens(tokens.sequences(), tokens.mask);
    for (const Aggregation mode : kModes) {
      const double whole = aggregated(mode, tokens.log_probs, tokens.sequences(), tokens.mask, {.length = 70.0});
      const Normalizers shared{
          .tokens = counts.tokens, .sequences = counts.sequences, .length = 70.0, .dp_size = ranks};
      double sum = 0, gradient = 0;
      TokenCounts summed;
      for (std::size_t sequence = 0; sequence < sequences;) {
        const std::size_t stop = std::min(sequences, sequence + 1 + random.below(5));
        std::vector<int64_t> offsets;
        for (std::size_t i = sequence; i <= stop; ++i) offsets.push_back(tokens.offsets[i] - tokens.offsets[sequence]);
        const auto begin = tokens.offsets[sequence], size = offsets.back();
        const std::vector<float> part(tokens.log_probs.begin() + begin, tokens.log_probs.begin() + begin + size);
        const auto mask =
            std::span(tokens.mask).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
        const TokenSequences part_sequences{std::span<const int64_t>(offsets)};
        sum += aggregated(mode, part, part_sequences, mask, shared);
        summed += count_tokens(part_sequences, mask);
        std::vector<double> weights(stop - sequence);
        aggregation_weights(mode, part_sequences, mask, shared, weights);
        std::vector<float> grad(static_cast<std::size_t>(size));
        aggregate_backward(part_sequences, mask, weights, 1.0, grad);
        for (std::size_t i = 0; i < grad.size(); ++i) gradient += double{grad[i]} * part[i];
        sequence = stop;
      }
      CHECK(sum / ranks == doctest::Approx(whole).epsilon(1e-10));
      CHECK(gradient / ranks == doctest::Approx(whole).epsilon(1e-5));
      CHECK(summed.tokens == counts.tokens);
      CHECK(summed.sequences == counts.sequences);
    }
  }
}

// github.com/volcengine/verl
TEST_CASE("aggregation: verl's norm divides only by the length") {
  const std::vector<float> loss = {1, 2, 3, 4};
  const Normalizers compat{.dp_size = 4, .verl_compat = true};
  CHECK(aggregated(Aggregation::seq_mean_token_sum_norm, loss, TokenSequences(2, 2), {}, compat) == doctest::Approx(5));
  CHECK(aggregated(Aggregation::seq_mean_token_sum_norm, loss, TokenSequences(2, 2), {}) == doctest::Approx(2.5));
}

TEST_CASE("aggregation: without unmasked values the result is 0, even if masked ones are NaN") {
  const std::vector<float> nothing(6, kNaN);
  const std::vector<uint8_t> mask(6, 0);
  for (const Aggregation mode : kModes) {
    CHECK(aggregated(mode, nothing, TokenSequences(2, 3), mask) == 0);
    CHECK(aggregated(mode, {}, TokenSequences(0, 3), {}) == 0);
    CHECK(aggregated(mode, {}, TokenSequences(3, 0), {}) == 0);
    CHECK(aggregated(mode, nothing, TokenSequences(2, 3), mask, {.tokens = 0.0, .sequences = 0.0}) == 0);
  }
}

TEST_CASE("aggregation: names, and rejected input") {
  for (std::size_t i = 0; i < 4; ++i) CHECK(find_aggregation(aggregation_names()[i]) == kModes[i]);
  CHECK_THROWS_WITH_AS(find_aggregation("token_mean"), doctest::Contains("did you mean \"token-mean\"?"), ConfigError);
  const std::vector<float> loss(6);
  const std::vector<uint8_t> mask(5);
  CHECK_THROWS_AS(aggregated(Aggregation::token_mean, loss, TokenSequences(2, 3), mask), InvariantError);
  CHECK_THROWS_AS(aggregated(Aggregation::token_mean, loss, TokenSequences(2, 2), {}), InvariantError);
  CHECK_THROWS_AS(aggregated(Aggregation::token_mean, loss, TokenSequences(2, 3), {}, {.tokens = -1.0}),
                  InvariantError);
  CHECK_THROWS_AS(aggregated(Aggregation::token_mean, loss, TokenSequences(2, 3), {}, {.dp_size = 0}), InvariantError);
  const std::vector<int64_t> falling = {0, 4, 2}, late = {1, 2};
  CHECK_THROWS_AS(TokenSequences(std::span<const int64_t>(falling)), InvariantError);
  CHECK_THROWS_AS(TokenSequences(std::span<const int64_t>(late)), InvariantError);
  CHECK_THROWS_AS(TokenSequences(std::span<const int64_t>()), InvariantError);
}
