#pragma once
// Answers of several turns for tests: what is said between the turns.

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "models/learning/answers/answer_learner.h"
#include "tests/models/learning/answers/answers.h"

namespace troupe::test {

// The answers with messages of 0 to 3 tokens before some of their tokens, never before the first.
inline std::shared_ptr<Rollout> with_messages(const std::shared_ptr<Rollout>& rollout, int64_t vocabulary,
                                              uint64_t seed) {
  Rng rng(derive_key(seed, "messages"));
  auto& answers = std::get<Answers>(rollout->body);
  const auto offsets = answers.sampled.offsets.view<int64_t>();
  std::vector<int32_t> ids, lengths(static_cast<size_t>(offsets.back()), 0);
  for (size_t a = 0; a + 1 < offsets.size(); ++a)
    for (int64_t t = offsets[a] + 1; t < offsets[a + 1]; ++t) {
      lengths[static_cast<size_t>(t)] = static_cast<int32_t>(rng.below(2) * rng.below(4));
      for (int32_t i = 0; i < lengths[static_cast<size_t>(t)]; ++i)
        ids.push_back(static_cast<int32_t>(rng.below(static_cast<uint64_t>(vocabulary))));
    }
  answers.messages = {array_of(ids), array_of(lengths)};
  return rollout;
}

// One update of all answers at a time.
inline LearnerConfig conversation_config() {
  LearnerConfig config;
  config.seed = 2;
  config.algorithm.advantage = "grpo";
  config.trainer.epochs = 1;
  config.trainer.minibatches = 1;
  config.trainer.lr_schedule = "constant";
  return config;
}

}  // namespace troupe::test
