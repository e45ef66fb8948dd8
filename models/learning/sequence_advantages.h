#pragma once
// The advantages of a staged batch by an estimator of the table (algorithms/advantages/advantages.h), which takes the
// sequences as answers. A pure function; any thread.

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "models/learning/sequences.h"
#include "models/learning/staging.h"

namespace troupe {

// What the policy at the start of an update computes for the stored actions; each [B, D], of the samples to train on
// only.
struct StartProbabilities {
  std::vector<float> log_probs;
  std::vector<float> sum_pi_squared;  // sum over the categories of a decision of their squared probabilities
};

struct SequenceAdvantageInput {
  const Sequences& sequences;
  std::span<const int64_t> groups;  // [S]
  double gamma = 1.0;               // of V(s') where a sequence does not end in a terminal state
  int64_t decisions = 1;            // D
  bool per_decision = false;        // estimators that weigh tokens by probability take each decision as a token
  const StartProbabilities* start = nullptr;  // for those estimators
  std::span<const float> weights = {};        // for those, [B] or [B, D] per token: rollout weights, or empty
};

struct TokenAdvantages {
  int64_t per_sample = 1;     // C: 1, or D
  std::vector<float> values;  // [B, C]; 0 for samples of no sequence and at decisions that were not executed
};

// A token is a step, or with per_decision a decision that was executed. The reward of a step is at its last token. An
// incomplete sequence has gamma V(s') at its last token. ReMax asks for the reward of the greedy answer: it is the
// critic's value of the first state.
TokenAdvantages estimate_sequences(const AlgorithmChoice& choice, const SequenceAdvantageInput& in,
                                   const StagedSamples& batch);

}  // namespace troupe
