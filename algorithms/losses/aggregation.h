#pragma once
// Aggregation: how token losses are reduced to one number. Every mode is one weight per sequence, the same for all its
// tokens. So the weighted sum and the gradient use the same weights, and sums over micro-batches and ranks add up to
// the sum over the whole batch if they use the same normalizers. Pure functions; any thread; no allocation.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "algorithms/common/token_sequences.h"

namespace troupe {

// With n_i the number of unmasked tokens of sequence i, over the sequences with n_i > 0:
enum class Aggregation : uint8_t {
  token_mean = 0,               // sum of all / N_tok
  seq_mean_token_sum = 1,       // sum of all / N_seq
  seq_mean_token_mean = 2,      // sum over sequences of (mean over the sequence) / N_seq
  seq_mean_token_sum_norm = 3,  // sum of all / (L N_seq) (Dr.GRPO)
};

std::span<const std::string_view> aggregation_names();  // in the order of the enum
// "token-mean", "seq-mean-token-sum", "seq-mean-token-mean" or "seq-mean-token-sum-norm". Throws ConfigError.
Aggregation find_aggregation(std::string_view name, std::string_view path = "algorithm.aggregation");

// What a batch contributes to the normalizers. Sum these over the micro-batches of an optimizer step and over ranks.
struct TokenCounts {
  double tokens = 0;     // unmasked
  double sequences = 0;  // sequences with at least one unmasked token
  TokenCounts& operator+=(const TokenCounts& other);
};
TokenCounts count_tokens(const TokenSequences& sequences, std::span<const uint8_t> mask);

// Constants of the whole optimizer step. Counts that are not given are those of the sequences at hand. `verl_compat`
// follows verl (github.com/volcengine/verl).
struct Normalizers {
  std::optional<double> tokens;     // N_tok
  std::optional<double> sequences;  // N_seq
  std::optional<double> length;     // L of seq-mean-token-sum-norm; not given: the longest sequence
  double dp_size = 1;        // factor: the number of ranks if gradients are averaged over them, 1 if they are summed
  bool verl_compat = false;  // seq-mean-token-sum-norm divides by L alone, and dp_size does not apply to it
};

// Writes weights [S], one per sequence: the aggregate is the sum over sequences of weights[i] times the sum of the
// sequence's unmasked values. A normalizer of 0 gives weights of 0. mask: [n], or empty = all.
void aggregation_weights(Aggregation mode, const TokenSequences& sequences, std::span<const uint8_t> mask,
                         const Normalizers& normalizers, std::span<double> weights);

// The sum over sequences of weights[i] times the sum of the sequence's unmasked values.
// values: [n]; masked ones may be anything, NaN included.
double aggregate(std::span<const float> values, const TokenSequences& sequences, std::span<const uint8_t> mask,
                 std::span<const double> weights);
// Its gradient: grad[t] = weights[sequence of t] * scale, 0 where masked. grad [n].
void aggregate_backward(const TokenSequences& sequences, std::span<const uint8_t> mask, std::span<const double> weights,
                        double scale, std::span<float> grad);

}  // namespace troupe
