#include "models/learning/answers/answer_advantages.h"

#include <algorithm>

namespace troupe {

AnswerAdvantages answer_advantages(const AlgorithmChoice& choice, const AnswerBatch& batch) {
  const size_t tokens = batch.tokens.size();
  std::vector<float> rewards(tokens, 0.0f), returns(tokens);
  for (int64_t a = 0; a < batch.answers(); ++a)
    rewards[static_cast<size_t>(batch.offsets[static_cast<size_t>(a) + 1] - 1)] = batch.rewards[static_cast<size_t>(a)];
  std::vector<int64_t> groups(static_cast<size_t>(batch.answers()));
  for (int64_t g = 0; g < batch.groups(); ++g)
    std::fill(groups.begin() + batch.group_offsets[static_cast<size_t>(g)],
              groups.begin() + batch.group_offsets[static_cast<size_t>(g) + 1], g);

  AdvantageInput input;
  input.sequences = TokenSequences(batch.offsets);
  input.rewards = rewards;
  input.groups = groups;
  AnswerAdvantages result;
  result.advantages.resize(tokens);
  estimate_advantages(*choice.advantage, input, choice.advantage_parameters, {result.advantages, returns});
  result.before_whitening = masked_moments(result.advantages, {});
  result.returns = masked_moments(returns, {});
  if (choice.whitening) whiten(result.advantages, {}, result.before_whitening, *choice.whitening);
  return result;
}

}  // namespace troupe
