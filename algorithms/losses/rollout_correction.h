#pragma once
// Rollout correction, for tokens that were sampled by a different policy (another engine, precision or version)
// than the one whose log-probabilities the trainer uses as old. It provides importance weights, rejection of
// tokens and sequences, and metrics of the distance between the two policies. Follows rollout_corr_helper of
// verl (github.com/volcengine/verl). Built from it: truncated importance sampling (TIS) per token or with
// masking of whole sequences, rejection of tokens by their ratio (ICEPOP), and off-policy sequence masking
// (OPSM). Pure functions; any thread.

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "algorithms/common/token_sequences.h"

namespace troupe {

enum class WeightLevel : uint8_t {
  none = 0,      // weights of 1
  token = 1,     // exp(clamp(l_t, +-20)), l = log_prob - rollout_log_prob
  sequence = 2,  // exp(clamp(sum of l over the sequence, +-20)), the same for all its tokens
};

// What to do with a weight outside [low, high].
enum class WeightBound : uint8_t {
  truncate = 0,  // clamp it (truncated importance sampling)
  zero = 1,      // set it to 0 (ICEPOP)
};

// A statistic of l, and the range in which a token or sequence is kept.
struct RejectionRule {
  enum class Statistic : uint8_t { k1 = 0, k2 = 1, k3 = 2 };  // -l, l^2 / 2, exp(l) - 1 - l, l clamped to +-20
  enum class Over : uint8_t { token = 0, seq_sum = 1, seq_mean = 2, seq_max = 3 };
  Statistic statistic = Statistic::k1;
  Over over = Over::token;
  double low = -std::numeric_limits<double>::infinity();  // in nats; kept when low <= statistic <= high
  double high = std::numeric_limits<double>::infinity();
};

// Parses rules such as "token_k1,seq_max_k2" with thresholds "0.5_2.0,0.1": one threshold per rule, or one for all. k1
// takes a range of ratios LOW_HIGH, compared as ln LOW <= -l <= ln HIGH, or one number u, short for 1/u_u. k2 and k3
// take an upper bound. Statistics over a sequence are the sum, mean or maximum over its unmasked tokens. Throws
// ConfigError that quotes the wrong part.
std::vector<RejectionRule> parse_rejection_rules(std::string_view rules, std::string_view thresholds,
                                                 std::string_view path = "algorithm.rollout_correction");

struct RolloutCorrection {
  WeightLevel level = WeightLevel::sequence;
  WeightBound bound = WeightBound::truncate;
  double low = 0;  // of the weight
  double high = 2;
  bool batch_normalize = false;  // divide by the mean weight (over tokens, or over sequences at sequence level)
  std::vector<RejectionRule> rules = {};
  // OPSM (DeepSeek-V3.2, arXiv:2512.02556): in a sequence whose mean of -l is above this, the tokens with a negative
  // advantage are rejected; infinite = off. Needs advantages.
  double opsm_delta = std::numeric_limits<double>::infinity();
};

struct OffPolicyMetrics {
  double kl = 0;                                     // mean of -l: KL(rollout || trained)
  double k3_kl = 0;                                  // mean of exp(l) - 1 - l
  double training_log_ppl = 0, rollout_log_ppl = 0;  // means over sequences of -mean log-probability
  double training_ppl = 0, rollout_ppl = 0;          // means over sequences of exp of that
  double log_ppl_diff = 0, log_ppl_abs_diff = 0, log_ppl_diff_max = 0, log_ppl_diff_min = 0;
  double ppl_ratio = 0;   // mean over sequences of exp(training - rollout log ppl)
  double chi2_token = 0;  // mean of exp(2 l) - 1
  double chi2_seq = 0;    // mean over sequences of exp(2 sum l) - 1
  double weight_mean = 0, weight_std = 0, weight_min = 0, weight_max = 0;  // before the bounds are applied
  double weight_high_fraction = 0, weight_low_fraction = 0;                // above high, below low
  double ess = 0;                         // 1 / mean((w / mean w)^2) of the weights clamped to [1 / high, high]
  double rejected_token_fraction = 0;     // of the unmasked tokens
  double rejected_sequence_fraction = 0;  // sequences that lost a token, of those with unmasked tokens
};

// Writes weights [n] (0 where the given mask is 0, but not zeroed where rejected) and kept [n] (the mask without
// rejected tokens). The gradient treats both as constants. All spans are [n]; advantages may be empty unless opsm_delta
// is finite; mask may be empty = all. Sequence-level statistics need no extra memory.
OffPolicyMetrics rollout_correction(std::span<const float> log_probs, std::span<const float> rollout_log_probs,
                                    const TokenSequences& sequences, std::span<const uint8_t> mask,
                                    std::span<const float> advantages, const RolloutCorrection& params,
                                    std::span<float> weights, std::span<uint8_t> kept);

}  // namespace troupe
