#pragma once
// Rollouts for tests of replay, with one policy version and valid steps except those in `invalid`, and its rules.

#include "actors/config/replay_rules.h"
#include "models/experience/rollout.h"

namespace troupe::test {

struct RolloutRecipe {
  uint64_t worker = 1;
  uint64_t sequence = 0;
  int64_t steps = 4;
  int64_t columns = 2;
  PolicyVersion version = {};
  std::vector<std::pair<int64_t, int64_t>> invalid = {};  // (t, n)
};

inline RolloutPtr make_rollout(const RolloutRecipe& recipe) {
  auto rollout = std::make_shared<Rollout>();
  const Shape grid{recipe.steps, recipe.columns};
  rollout->worker = recipe.worker;
  rollout->sequence = recipe.sequence;
  rollout->epoch = recipe.version.epoch;
  rollout->oldest = rollout->newest = recipe.version.number;
  rollout->grid().values = Array(DType::f32, grid);
  rollout->grid().valid = Array(DType::u8, grid);
  rollout->grid().version = Array(DType::i64, grid);
  for (auto& v : rollout->grid().valid.mutable_view<uint8_t>()) v = 1;
  for (auto& v : rollout->grid().version.mutable_view<int64_t>()) v = static_cast<int64_t>(recipe.version.number);
  for (auto [t, n] : recipe.invalid)
    rollout->grid().valid.mutable_view<uint8_t>()[static_cast<size_t>(t * recipe.columns + n)] = 0;
  rollout->samples = static_cast<uint64_t>(recipe.steps * recipe.columns) - recipe.invalid.size();
  rollout->env_steps = rollout->samples;
  return rollout;
}

// The rules of a run on an environment with these settings.
inline ReplayRules rules_of(const ReplayConfig& config, int64_t super_batch) {
  RunConfig run;
  run.replay = config;
  run.trainer.super_batch = super_batch;
  return replay_rules(run);
}

}  // namespace troupe::test
