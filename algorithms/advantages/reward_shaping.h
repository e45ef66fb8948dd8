#pragma once
// From scores of whole answers to rewards per token, and penalties on long or cut-off answers. Pure functions; any
// thread.

#include <cstdint>
#include <limits>
#include <span>

#include "algorithms/common/token_sequences.h"

namespace troupe {

struct RewardShaping {
  double kl_coef = 0;  // beta
  double score_low = -std::numeric_limits<double>::infinity();
  double score_high = std::numeric_limits<double>::infinity();
};

// rewards per token: -kl_coef * kl at unmasked tokens, plus the clamped score of the sequence at its last unmasked
// token; 0 where masked. A sequence with no unmasked token gets no score. kl: per token, or empty = none; scores [B];
// mask per token, or empty = all. Only the score is clamped (Stiennon et al. 2020, arXiv:2009.01325; Ouyang et al.
// 2022, arXiv:2203.02155, eq. 2). Throws InvariantError when sizes do not fit or a bound is NaN or above the other.
void shape_rewards(const TokenSequences& sequences, std::span<const float> scores, std::span<const float> kl,
                   std::span<const uint8_t> mask, const RewardShaping& shaping, std::span<float> rewards);

// The same for scores that are given per token [n]: -kl_coef * kl + clamped score, 0 where masked.
void shape_token_rewards(std::span<const float> scores, std::span<const float> kl, std::span<const uint8_t> mask,
                         const RewardShaping& shaping, std::span<float> rewards);

// OpenRLHF is github.com/OpenRLHF/OpenRLHF, verl github.com/volcengine/verl.
struct OverlongPenalty {
  double max_length = 0;  // L_max, tokens
  double buffer = 0;      // L_buf, tokens; the penalty grows over the last L_buf tokens before L_max
  double factor = 1;      // the penalty at L_max
  bool bounded = false;   // never more than `factor` beyond L_max (OpenRLHF); false: it keeps growing (verl)
};

// min(-(length - (L_max - L_buf)) / L_buf * factor, 0) per answer, to be added to its score (DAPO, Yu et al. 2025,
// arXiv:2503.14476, eq. 13). lengths [B], penalties [B]. Throws InvariantError unless 0 < buffer <= max_length and
// factor >= 0.
void overlong_penalty(std::span<const int64_t> lengths, const OverlongPenalty& penalty, std::span<float> penalties);

// Scores of answers that were cut off: times `coefficient` when it is in [0, 1], replaced by it when it is negative
// (OpenRLHF's "stop properly" penalty). scores, truncated [B], in place. Throws InvariantError for a coefficient above
// 1 or NaN.
void penalize_truncated(std::span<float> scores, std::span<const uint8_t> truncated, double coefficient);

}  // namespace troupe
