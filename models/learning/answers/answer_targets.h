#pragma once
// The training targets of the tokens of answers: rewards, advantages and value targets. All of them are computed with
// the weights from before the update, so that they stay the same during the update. Pure functions; any thread.

#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "algorithms/choice/algorithm_config.h"
#include "models/learning/answers/answer_batch.h"
#include "models/learning/metrics.h"

namespace troupe {

// What the start of an update has to compute.
struct AnswerNeeds {
  bool policy = false;        // log-probabilities of the tokens
  bool squared = false;       // and the sums of the squared probabilities of all tokens in their place
  bool values = false;        // of the states before the tokens
  bool final_values = false;  // of the states after the last tokens

  bool any() const { return policy || values; }
};

// It, with the weights from before the update. What is not needed is empty.
struct AnswerStart {
  std::vector<float> log_probs;       // [T]
  std::vector<float> sum_pi_squared;  // [T] sum over the vocabulary of pi^2
  std::vector<float> values;          // [T]
  std::vector<float> final_values;    // [S]
};

struct AnswerTargets {
  std::vector<float> advantages;       // [T], whitened if the algorithm says so
  std::vector<float> values, returns;  // [T] before the update, and what they should be; empty without a critic
  TargetFigures figures = {};
};

AnswerNeeds needs_of(const AlgorithmChoice& choice, const AlgorithmConfig& config, bool critic);

// The reward of an answer is at its last token. A group is the answers to one prompt. With gae and vtrace a token is a
// step, and an answer an episode that ends with its last token, or one that was truncated there where
// bootstrap_cut_answers says so.
AnswerTargets answer_targets(const AlgorithmChoice& choice, const AlgorithmConfig& config, const AnswerBatch& batch,
                             AnswerStart start);

}  // namespace troupe
