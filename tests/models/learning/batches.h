#pragma once
// Environments and rollouts with random contents for tests of models.

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "actors/config/run_config.h"
#include "envs/env.h"
#include "models/torch/learning/make_model.h"
#include "runtime/base/rng.h"

namespace troupe::test {

inline EnvSpec spec_of(ActionKind kind, std::vector<int32_t> bins, int32_t chunk = 1, bool masked = false) {
  EnvSpec spec;
  spec.id = "made-up";
  spec.observations = {{"state", DType::f32, {5}}};
  spec.action.kind = kind;
  spec.action.chunk = chunk;
  spec.action.masked = masked;
  if (kind == ActionKind::continuous) {
    spec.action.low.assign(bins.size(), -1.0f);
    spec.action.high.assign(bins.size(), 1.0f);
  } else {
    spec.action.bins = std::move(bins);
  }
  return spec;
}
inline EnvSpec discrete_spec() { return spec_of(ActionKind::discrete, {3}); }
inline EnvSpec continuous_spec() { return spec_of(ActionKind::continuous, {0, 0}); }
inline EnvSpec token_spec() { return spec_of(ActionKind::multi_discrete, {4, 3}, 2); }
inline EnvSpec masked_spec() { return spec_of(ActionKind::discrete, {4}, 1, true); }

inline Array random_array(Shape shape, uint64_t key, float scale = 1.0f) {
  Array result(DType::f32, shape);
  Rng rng(key);
  for (float& x : result.mutable_view<float>()) x = scale * rng.normal();
  return result;
}

// T x N steps with the actions of `policy`. Noise is added to the stored log-probabilities and policy parameters, so
// that ratios differ from 1 and KL divergences from 0. `spec` has one observation, "state".
inline std::shared_ptr<Rollout> random_rollout(const EnvSpec& spec, Policy& policy, int64_t steps, int64_t columns,
                                               uint64_t seed, float log_prob_noise = 0.3f) {
  auto rollout = std::make_shared<Rollout>();
  const int64_t samples = steps * columns;
  ActInput input;
  const Shape& observation = spec.observations.front().shape;
  input.observations.set("state", random_array(observation.prepended(samples), derive_key(seed, "observations")));
  input.seeds = Array(DType::i64, {samples});
  std::iota(input.seeds.mutable_view<int64_t>().begin(), input.seeds.mutable_view<int64_t>().end(),
            static_cast<int64_t>(seed) * 1000);
  input.deterministic = Array(DType::u8, {samples});
  input.with_parameters = true;
  if (spec.action.masked) {
    input.action_mask = Array(DType::u8, {samples, spec.action.mask_size()});
    Rng rng(derive_key(seed, "mask"));
    const auto mask = input.action_mask.mutable_view<uint8_t>();
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % spec.action.mask_size() == 0 || rng.uniform() < 0.6f;
    rollout->grid().action_mask = input.action_mask.reshaped({steps, columns, spec.action.mask_size()});
  }
  const ActOutput output = policy.act(input);
  rollout->grid().observations.set(
      "state", input.observations.at("state").reshaped(observation.prepended(columns).prepended(steps)));
  rollout->grid().actions = output.actions.reshaped(spec.action.shape().prepended(columns).prepended(steps));
  rollout->grid().log_probs = output.log_probs.clone().reshaped({steps, columns, spec.action.decisions()});
  Rng noise(derive_key(seed, "noise"));
  for (float& x : rollout->grid().log_probs.mutable_view<float>()) x += log_prob_noise * noise.normal();
  rollout->grid().policy_parameters =
      output.policy_parameters.clone().reshaped({steps, columns, spec.action.policy_parameters()});
  for (float& x : rollout->grid().policy_parameters.mutable_view<float>()) x += log_prob_noise * noise.normal();
  rollout->grid().values = output.values.reshaped({steps, columns});
  rollout->grid().next_values = random_array({steps, columns}, derive_key(seed, "next_values"));
  rollout->grid().rewards = random_array({steps, columns}, derive_key(seed, "rewards"));
  rollout->grid().advantages = random_array({steps, columns}, derive_key(seed, "advantages"));
  rollout->grid().returns = random_array({steps, columns}, derive_key(seed, "returns"), 2.0f);
  for (Array* array : {&rollout->grid().terminated, &rollout->grid().truncated, &rollout->grid().valid})
    *array = Array(DType::u8, {steps, columns});
  std::ranges::fill(rollout->grid().valid.mutable_view<uint8_t>(), 1);
  rollout->samples = static_cast<uint64_t>(samples);
  return rollout;
}

inline SuperBatch whole_batch(std::shared_ptr<Rollout> rollout) {
  SuperBatch batch;
  batch.samples = rollout->samples;
  std::vector<int32_t> columns(static_cast<size_t>(rollout->grid().columns()));
  std::iota(columns.begin(), columns.end(), 0);
  batch.parts.push_back({std::move(rollout), std::move(columns)});
  return batch;
}

inline UpdateReport update_with(Learner& learner, const SuperBatch& batch, double progress = 0.0) {
  const auto staged = learner.stager()->stage(batch);
  return learner.update(*staged, progress);
}

inline RunConfig small_config() {
  RunConfig config;
  config.model.hidden = {16, 8};
  config.model.policy_gain = 1.0;
  config.trainer.epochs = 1;
  config.trainer.minibatches = 1;
  config.trainer.lr_schedule = "constant";
  return config;
}

// A policy and a learner of one config.
struct Pair {
  RunConfig config;
  EnvSpec spec;
  std::unique_ptr<Policy> policy;
  std::unique_ptr<Learner> learner;

  Pair(RunConfig config, EnvSpec spec)
      : config(config), spec(spec), policy(make_policy(config, spec)), learner(make_learner(config, spec)) {}
  SuperBatch batch(uint64_t seed, int64_t steps = 8, int64_t columns = 6) {
    return whole_batch(random_rollout(spec, *policy, steps, columns, seed));
  }
};

// A batch in which episodes end, so that it has several sequences per column. `distance` is the largest additional
// noise of the log-probabilities.
inline SuperBatch episodes_batch(const Pair& pair, uint64_t seed, float distance = 0) {
  auto rollout = random_rollout(pair.spec, *pair.policy, 9, 8, seed);
  Rng rng(seed);
  if (distance > 0)
    for (float& log_prob : rollout->grid().log_probs.mutable_view<float>())
      log_prob += distance * (2 * rng.uniform() - 1);
  for (int64_t i = 0; i < 72; ++i) {
    rollout->grid().terminated.mutable_view<uint8_t>()[i] = rng.uniform() < 0.2f;
    rollout->grid().truncated.mutable_view<uint8_t>()[i] = rng.uniform() < 0.1f;
  }
  if (!pair.spec.tasks.empty()) {
    rollout->grid().task = Array(DType::i32, {9, 8});
    for (int32_t& task : rollout->grid().task.mutable_view<int32_t>()) task = static_cast<int32_t>(rng.below(2));
  }
  return whole_batch(rollout);
}

inline bool same_model(const Learner& a, const Learner& b) { return a.save().model == b.save().model; }

inline float nan() { return std::numeric_limits<float>::quiet_NaN(); }

inline ActInput one_input(const EnvSpec& spec, int64_t samples) {
  ActInput input;
  input.observations.set("state", random_array({samples, 5}, 77));
  input.seeds = Array(DType::i64, {samples});
  input.deterministic = Array(DType::u8, {samples});
  if (spec.action.masked) {
    input.action_mask = Array(DType::u8, {samples, spec.action.mask_size()});
    std::ranges::fill(input.action_mask.mutable_view<uint8_t>(), 1);
  }
  return input;
}

}  // namespace troupe::test
