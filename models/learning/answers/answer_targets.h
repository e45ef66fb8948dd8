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
  bool reference = false;     // log-probabilities of the tokens by the reference

  bool any() const { return policy || values || reference; }
};

// It, with the weights from before the update. What is not needed is empty.
struct AnswerStart {
  std::vector<float> log_probs;       // [T]
  std::vector<float> sum_pi_squared;  // [T] sum over the vocabulary of pi^2
  std::vector<float> values;          // [T]
  std::vector<float> final_values;    // [S]
  std::vector<float> reference;       // [T]
};

// How far the policy may go from the reference.
struct ReferencePenalty {
  KlEstimator kl = {};
  double coef = 0;
  bool in_reward = true;
};

struct AnswerTargets {
  std::vector<float> advantages;       // [T], whitened if the algorithm says so
  std::vector<float> old_log_probs;    // [T] of the policy that ratios are taken to; empty = the one that sampled
  std::vector<float> rollout_weights;  // [T] factors of the surrogate; empty = 1
  std::vector<uint8_t> kept;           // [T] 0 = without loss of the policy, like what the batch does not keep
  std::vector<float> scores;           // [S] of the whole answers, clipped, with the penalty of their length
  std::vector<float> values, returns;  // [T] before the update, and what they should be; empty without a critic
  std::vector<float> reference;        // [T] log-probabilities of the reference; empty unless its KL is in the loss
  double reference_coef = 0;           // of that KL
  TargetFigures figures = {};

  bool is_kept(size_t t) const { return kept.empty() || kept[t] != 0; }
};

AnswerNeeds needs_of(const AlgorithmChoice& choice, const AlgorithmConfig& config, bool critic, bool reference);

// The score of an answer is the reward of its last token, but for the penalty, which is the one of each token, and for
// the rewards of turns, which come with their last tokens unless the estimator compares answers. A group is the answers
// to one prompt. With gae and vtrace a token is a step, and an answer an episode that ends with its last token, or one
// that was truncated there where bootstrap_cut_answers says so. `penalty` counts only if the start has the reference. A
// correction is made here, unless its proximal policy is interpolated: then each step does it. Tokens that the batch
// does not keep are part of answers like others, but of no figure, and of no whitening. `longest`: the largest number
// of tokens of a turn, of which overlong_penalty is.
AnswerTargets answer_targets(const AlgorithmChoice& choice, const AlgorithmConfig& config,
                             const ReferencePenalty& penalty, const AnswerBatch& batch, AnswerStart start,
                             int64_t longest = 0);

}  // namespace troupe
