#pragma once
// Rollout correction of the tokens of answers (algorithms/losses/rollout_correction.h): the policy that their
// importance ratios are taken to, the weights of their losses, and the tokens that are left out. Pure functions; any
// thread.

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"

namespace troupe {

// Some tokens, answer after answer. All spans are [N] unless stated otherwise.
struct TokensToCorrect {
  std::span<const float> log_probs;    // of the policy being trained
  std::span<const float> rollout;      // of the policy that sampled the tokens
  std::span<const int64_t> offsets;    // [S + 1] from 0
  std::span<const uint8_t> kept;       // 0 = without loss, or empty = all
  std::span<const float> advantages;   // read by opsm_delta alone; empty = without it
  std::span<const int64_t> lags = {};  // of the tokens; read where the proximal policy is interpolated
};

// [N] each.
struct AnswerCorrection {
  std::vector<float> old_log_probs;  // of the policy that ratios are taken to; empty = the one that sampled the tokens
  std::vector<float> weights;        // factors of the surrogate; empty = 1
  std::vector<uint8_t> kept;         // 0 = without loss
  OffPolicyMetrics metrics;
};

// With the policy at the start of an update as the one being trained, unless choice.proximal is interpolated, where
// tokens are corrected at each step. The choice must have a correction.
AnswerCorrection correct_answers(const AlgorithmChoice& choice, const TokensToCorrect& tokens);

}  // namespace troupe
