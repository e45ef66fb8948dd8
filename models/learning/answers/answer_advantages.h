#pragma once
// The advantages of the tokens of answers, by an estimator of the table (algorithms/advantages/advantages.h). A pure
// function; any thread.

#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "algorithms/common/moments.h"
#include "models/learning/answers/answer_batch.h"

namespace troupe {

struct AnswerAdvantages {
  std::vector<float> advantages;  // [T], whitened if the algorithm says so
  Moments before_whitening;
  Moments returns;
};

// The reward of an answer is at its last token. A group is the answers to one prompt.
AnswerAdvantages answer_advantages(const AlgorithmChoice& choice, const AnswerBatch& batch);

}  // namespace troupe
