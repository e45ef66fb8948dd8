#include "algorithms/losses/aggregation.h"

#include <algorithm>
#include <array>

#include "algorithms/common/names.h"
#include "algorithms/common/tile.h"

namespace troupe {

namespace {

constexpr std::array<std::string_view, 4> kAggregationNames = {"token-mean", "seq-mean-token-sum",
                                                               "seq-mean-token-mean", "seq-mean-token-sum-norm"};

void check(const TokenSequences& sequences, std::span<const uint8_t> mask) {
  TROUPE_CHECK(fits_or_empty(mask, static_cast<std::size_t>(sequences.tokens())), "tokens", sequences.tokens(), "mask",
               mask.size());
}

void check_weights(const TokenSequences& sequences, std::span<const double> weights) {
  TROUPE_CHECK(static_cast<int64_t>(weights.size()) == sequences.count(), "sequences", sequences.count(), "weights",
               weights.size());
}

double live_tokens(const TokenSequences& sequences, std::span<const uint8_t> mask, int64_t sequence) {
  if (mask.empty()) return static_cast<double>(sequences.end(sequence) - sequences.begin(sequence));
  return static_cast<double>(std::count_if(mask.begin() + sequences.begin(sequence),
                                           mask.begin() + sequences.end(sequence),
                                           [](uint8_t flag) { return flag != 0; }));
}

double given(const std::optional<double>& normalizer, double otherwise, const char* name) {
  const double value = normalizer.value_or(otherwise);
  TROUPE_CHECK(value >= 0, name, value, "want 0 or more");
  return value;
}

double over(double numerator, double normalizer) { return normalizer == 0 ? 0.0 : numerator / normalizer; }

}  // namespace

std::span<const std::string_view> aggregation_names() { return kAggregationNames; }

Aggregation find_aggregation(std::string_view name, std::string_view path) {
  return static_cast<Aggregation>(find_name(path, name, kAggregationNames));
}

TokenCounts& TokenCounts::operator+=(const TokenCounts& other) {
  tokens += other.tokens;
  sequences += other.sequences;
  return *this;
}

TokenCounts count_tokens(const TokenSequences& sequences, std::span<const uint8_t> mask) {
  check(sequences, mask);
  TokenCounts counts;
  for (int64_t i = 0; i < sequences.count(); ++i) {
    const double live = live_tokens(sequences, mask, i);
    counts += {live, live > 0 ? 1.0 : 0.0};
  }
  return counts;
}

void aggregation_weights(Aggregation mode, const TokenSequences& sequences, std::span<const uint8_t> mask,
                         const Normalizers& normalizers, std::span<double> weights) {
  check(sequences, mask);
  check_weights(sequences, weights);
  TROUPE_CHECK(normalizers.dp_size > 0, "dp_size", normalizers.dp_size, "want more than 0");
  TokenCounts counts;
  for (int64_t i = 0; i < sequences.count(); ++i) {
    weights[i] = live_tokens(sequences, mask, i);
    counts += {weights[i], weights[i] > 0 ? 1.0 : 0.0};
  }
  const double tokens = given(normalizers.tokens, counts.tokens, "num_tokens");
  const double count = given(normalizers.sequences, counts.sequences, "num_sequences");
  const double length = given(normalizers.length, static_cast<double>(sequences.longest()), "length");
  for (double& weight : weights) {
    const double live = weight;
    switch (mode) {
      case Aggregation::token_mean: weight = over(normalizers.dp_size, tokens); break;
      case Aggregation::seq_mean_token_sum: weight = over(normalizers.dp_size, count); break;
      case Aggregation::seq_mean_token_mean: weight = over(normalizers.dp_size, count * live); break;
      case Aggregation::seq_mean_token_sum_norm:
        weight = normalizers.verl_compat ? over(1.0, length) : over(normalizers.dp_size, count * length);
        break;
    }
  }
}

double aggregate(std::span<const float> values, const TokenSequences& sequences, std::span<const uint8_t> mask,
                 std::span<const double> weights) {
  check(sequences, mask);
  check_weights(sequences, weights);
  TROUPE_CHECK(static_cast<int64_t>(values.size()) == sequences.tokens(), "values", values.size(), "tokens",
               sequences.tokens());
  double total = 0;
  for (int64_t i = 0; i < sequences.count(); ++i) {
    double sum = 0;
    for (int64_t t = sequences.begin(i); t < sequences.end(i); ++t)
      if (mask.empty() || mask[t] != 0) sum += values[t];
    if (weights[i] != 0) total += weights[i] * sum;
  }
  return total;
}

void aggregate_backward(const TokenSequences& sequences, std::span<const uint8_t> mask, std::span<const double> weights,
                        double scale, std::span<float> grad) {
  check(sequences, mask);
  check_weights(sequences, weights);
  TROUPE_CHECK(static_cast<int64_t>(grad.size()) == sequences.tokens(), "grad", grad.size(), "tokens",
               sequences.tokens());
  for (int64_t i = 0; i < sequences.count(); ++i) {
    const auto weight = static_cast<float>(weights[i] * scale);
    for (int64_t t = sequences.begin(i); t < sequences.end(i); ++t)
      grad[t] = mask.empty() || mask[t] != 0 ? weight : 0.0f;
  }
}

}  // namespace troupe
