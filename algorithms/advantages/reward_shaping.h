#pragma once
// Per-token rewards from scores of whole answers, and penalties on long or truncated answers. Pure functions; any
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

// rewards, per token: -kl_coef * kl at unmasked tokens, plus the clamped score of the sequence at its last unmasked
// token; 0 where masked. The score of a sequence without unmasked tokens is ignored. kl: per token, or empty = none.
// scores: [B]. mask: per token, or empty = all unmasked. Only the score is clamped (Stiennon et al. 2020,
// arXiv:2009.01325; Ouyang et al. 2022, arXiv:2203.02155, eq. 2). Throws InvariantError when sizes do not fit, when a
// bound is NaN or when score_low > score_high.
void shape_rewards(const TokenSequences& sequences, std::span<const float> scores, std::span<const float> kl,
                   std::span<const uint8_t> mask, const RewardShaping& shaping, std::span<float> rewards);

// The same with one score per token [n]: -kl_coef * kl + clamped score, 0 where masked.
void shape_token_rewards(std::span<const float> scores, std::span<const float> kl, std::span<const uint8_t> mask,
                         const RewardShaping& shaping, std::span<float> rewards);

// `bounded` distinguishes OpenRLHF (github.com/OpenRLHF/OpenRLHF) from verl (github.com/volcengine/verl).
struct OverlongPenalty {
  double max_length = 0;  // L_max, tokens
  double buffer = 0;      // L_buf, tokens; the penalty grows over the last L_buf tokens before L_max
  double factor = 1;      // the penalty at L_max
  bool bounded = false;   // true: at most `factor`, even beyond L_max (OpenRLHF); false: keeps growing (verl)
};

// min(-(length - (L_max - L_buf)) / L_buf * factor, 0) per answer, to be added to its score (DAPO, Yu et al. 2025,
// arXiv:2503.14476, eq. 13). lengths: [B]; penalties: [B], output. Throws InvariantError unless 0 < buffer <=
// max_length and factor >= 0.
void overlong_penalty(std::span<const int64_t> lengths, const OverlongPenalty& penalty, std::span<float> penalties);

// Changes, in place, the scores of truncated answers: a coefficient in [0, 1] multiplies the score, a negative one
// replaces it (the "stop properly" penalty of OpenRLHF). scores, truncated: [B]. Throws InvariantError for a
// coefficient that is NaN or above 1.
void penalize_truncated(std::span<float> scores, std::span<const uint8_t> truncated, double coefficient);

}  // namespace troupe
