#pragma once
// Learners of small decoders, and answers that older versions of their policies sampled, for tests.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/learning/answers/answer_learner.h"
#include "tests/models/learning/answers/sampled.h"

namespace troupe::test {

inline constexpr double kTemperature = 0.8;

inline LearnerConfig config_of(int64_t minibatches, int64_t epochs = 1) {
  LearnerConfig config;
  config.seed = 2;
  config.algorithm.advantage = "grpo";
  config.trainer.epochs = epochs;
  config.trainer.minibatches = minibatches;
  config.trainer.lr_schedule = "constant";
  config.trainer.policy_lr = 1e-2;
  return config;
}

inline AnswerTrainerOptions options_of(int64_t micro_batch_tokens = 0) {
  return {.seed = 2,
          .temperature = kTemperature,
          .answer_tokens = 13,
          .micro_batch_tokens = micro_batch_tokens,
          .threads = 2};
}

inline RolloutPtr sampled_with(const LmShape& shape, const Learner& learner, uint64_t version) {
  const auto generator = make_lm_generator(shape, slots(kTemperature, 1));
  generator->load(*learner.snapshot({1, version}));
  return sampled_rollout(shape, *generator, 5, static_cast<int64_t>(version));
}

inline std::unique_ptr<StagedBatch> staged(const Learner& learner, std::span<const RolloutPtr> rollouts,
                                           uint64_t index) {
  SuperBatch batch;
  batch.index = index;
  for (const RolloutPtr& rollout : rollouts) batch.parts.push_back(whole(rollout).parts.front());
  return learner.stager()->stage(batch);
}

// Updates with answers of their own until `number` of them were made; the rollouts that each version sampled.
inline std::vector<RolloutPtr> train_until(const LmShape& shape, Learner& learner, uint64_t number) {
  std::vector<RolloutPtr> result;
  for (uint64_t update = 0; update < number; ++update) {
    result.push_back(sampled_with(shape, learner, update));
    learner.update(*staged(learner, {&result.back(), 1}, update), 0);
  }
  return result;
}

}  // namespace troupe::test
