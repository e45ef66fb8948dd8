#include "algorithms/advantages/reward_shaping.h"

#include <algorithm>
#include <cmath>

#include "algorithms/common/tile.h"

namespace troupe {

namespace {

void check(const RewardShaping& shaping) {
  TROUPE_CHECK(shaping.kl_coef >= 0 && std::isfinite(shaping.kl_coef), "kl_coef", shaping.kl_coef);
  TROUPE_CHECK(shaping.score_low <= shaping.score_high, "score_low", shaping.score_low, "score_high",
               shaping.score_high);
}

// With a coefficient of 0 the KL is not read, because 0 * infinity would give NaN.
double penalty(std::span<const float> kl, std::size_t token, const RewardShaping& shaping) {
  return kl.empty() || shaping.kl_coef == 0 ? 0.0 : shaping.kl_coef * double{kl[token]};
}

double clamped(float score, const RewardShaping& shaping) {
  const double x = score;
  return x < shaping.score_low ? shaping.score_low : x > shaping.score_high ? shaping.score_high : x;
}

}  // namespace

void shape_rewards(const TokenSequences& sequences, std::span<const float> scores, std::span<const float> kl,
                   std::span<const uint8_t> mask, const RewardShaping& shaping, std::span<float> rewards) {
  check(shaping);
  const std::size_t n = rewards.size();
  TROUPE_CHECK(sequences.tokens() == static_cast<int64_t>(n), "sequences", sequences.tokens(), "rewards", n);
  TROUPE_CHECK(static_cast<int64_t>(scores.size()) == sequences.count(), "scores", scores.size(), "sequences",
               sequences.count());
  TROUPE_CHECK(fits_or_empty(mask, n) && (kl.empty() || kl.size() == n), "mask", mask.size(), "kl", kl.size(),
               "rewards", n);
  for (int64_t sequence = 0; sequence < sequences.count(); ++sequence) {
    const auto begin = static_cast<std::size_t>(sequences.begin(sequence));
    bool last = true;
    for (auto token = static_cast<std::size_t>(sequences.end(sequence)); token-- > begin;) {
      rewards[token] = 0;
      if (!mask.empty() && mask[token] == 0) continue;
      const double score = last ? clamped(scores[static_cast<std::size_t>(sequence)], shaping) : 0.0;
      rewards[token] = static_cast<float>(score - penalty(kl, token, shaping));
      last = false;
    }
  }
}

void shape_token_rewards(std::span<const float> scores, std::span<const float> kl, std::span<const uint8_t> mask,
                         const RewardShaping& shaping, std::span<float> rewards) {
  check(shaping);
  const std::size_t n = rewards.size();
  TROUPE_CHECK(scores.size() == n && fits_or_empty(mask, n) && (kl.empty() || kl.size() == n), "scores", scores.size(),
               "mask", mask.size(), "kl", kl.size(), "rewards", n);
  for (std::size_t token = 0; token < n; ++token) {
    const bool counts = mask.empty() || mask[token] != 0;
    rewards[token] = counts ? static_cast<float>(clamped(scores[token], shaping) - penalty(kl, token, shaping)) : 0.0f;
  }
}

void overlong_penalty(std::span<const int64_t> lengths, const OverlongPenalty& penalty, std::span<float> penalties) {
  TROUPE_CHECK(lengths.size() == penalties.size(), "lengths", lengths.size(), "penalties", penalties.size());
  TROUPE_CHECK(penalty.buffer > 0 && penalty.buffer <= penalty.max_length && std::isfinite(penalty.max_length),
               "buffer", penalty.buffer, "max_length", penalty.max_length);
  TROUPE_CHECK(penalty.factor >= 0 && std::isfinite(penalty.factor), "factor", penalty.factor);
  const double free_length = penalty.max_length - penalty.buffer;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    TROUPE_CHECK(lengths[i] >= 0, "lengths", lengths[i]);
    const double share = std::max((static_cast<double>(lengths[i]) - free_length) / penalty.buffer, 0.0);
    penalties[i] = static_cast<float>(0.0 - (penalty.bounded ? std::min(share, 1.0) : share) * penalty.factor);
  }
}

void penalize_truncated(std::span<float> scores, std::span<const uint8_t> truncated, double coefficient) {
  TROUPE_CHECK(scores.size() == truncated.size(), "scores", scores.size(), "truncated", truncated.size());
  TROUPE_CHECK(coefficient <= 1 && std::isfinite(coefficient), "coefficient", coefficient);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (truncated[i] == 0) continue;
    scores[i] = static_cast<float>(coefficient < 0 ? coefficient : coefficient * double{scores[i]});
  }
}

}  // namespace troupe
