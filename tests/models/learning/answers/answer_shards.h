#pragma once
// Learners of small decoders whose updates have several shards, and answers for them, for tests.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "models/learning/answers/answer_learner.h"
#include "tests/models/learning/answers/sampled.h"

namespace troupe::test {

struct ShardSettings {
  LmModel model;
  LearnerConfig config;
  int64_t micro_batch_tokens = 0;
};

inline LearnerConfig shard_config() {
  LearnerConfig config;
  config.seed = 3;
  config.algorithm.advantage = "grpo";
  config.trainer.epochs = 2;
  config.trainer.minibatches = 1;
  config.trainer.lr_schedule = "constant";
  config.trainer.adam_epsilon = 1;  // so that a step is proportional to its gradient
  config.trainer.policy_lr = config.trainer.value_lr = 0.1;
  return config;
}

inline std::unique_ptr<Learner> learner_of(const ShardSettings& settings, size_t shards) {
  LearnerConfig config = settings.config;
  config.trainer.shards = static_cast<int64_t>(shards);
  return make_answer_learner(
      config, settings.model,
      {.seed = 2, .answer_tokens = 13, .micro_batch_tokens = settings.micro_batch_tokens, .threads = 1});
}

// Answers to so many prompts.
inline SuperBatch answers_to(const ShardSettings& settings, const Learner& learner, int64_t prompts) {
  const auto generator = make_lm_generator(settings.model, slots(1.0, 1));
  generator->load(*learner.snapshot({1, 0}));
  return whole(sampled_rollout(settings.model.shape, *generator, prompts, /*version=*/0));
}

}  // namespace troupe::test
