#pragma once
// Policy filtration: an update of PF-PPO (Shen and Zhang 2024, "Policy Filtration for RLHF", arXiv:2409.06957) draws
// the answers that it trains on with replacement, by their scores. As in verl (github.com/volcengine/verl), it draws
// after the advantages are known, so that these and their whitening are of all answers. Pure functions; any thread.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "algorithms/choice/algorithm_config.h"
#include "algorithms/common/groups.h"
#include "models/learning/answers/answer_batch.h"
#include "models/learning/answers/answer_targets.h"

namespace troupe {

struct PolicyFiltration {
  ResampleWeight weight = {};
  double power = 2;  // of `pow`
};

// Nothing if the algorithm trains on all answers.
std::optional<PolicyFiltration> policy_filtration(const AlgorithmConfig& config);

// The answers to train on, ascending, each as often as it is drawn: as many as have a token that the batch keeps, and
// of those alone, since no other has a loss. The draw depends on the seed and on the number of the update, which the
// batch has. scores: [S].
std::vector<int64_t> draw_answers(const AnswerBatch& batch, std::span<const float> scores,
                                  const PolicyFiltration& filtration, uint64_t seed);

// The batch and the targets of these answers alone. An answer that is named several times is that many answers to its
// prompt: each adds to the loss, and to the numbers of tokens and answers that divide it. Prompts without an answer are
// left out. `answers` ascending, at least one; the figures of the targets stay those of all answers.
AnswerBatch batch_of(const AnswerBatch& batch, std::span<const int64_t> answers);
AnswerTargets targets_of(const AnswerTargets& targets, const AnswerBatch& batch, std::span<const int64_t> answers);

}  // namespace troupe
