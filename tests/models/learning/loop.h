#pragma once
// Environment -> policy -> rollout -> GAE -> learner in one thread, without actors: the plainest loop that can learn.

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "algorithms/advantages/gae.h"
#include "envs/make_env.h"
#include "models/make_model.h"
#include "runtime/base/rng.h"

namespace troupe::test {

inline SuperBatch whole(RolloutPtr rollout) {
  SuperBatch batch;
  batch.samples = rollout->samples;
  std::vector<int32_t> columns(rollout->columns());
  std::iota(columns.begin(), columns.end(), 0);
  batch.parts.push_back({std::move(rollout), std::move(columns)});
  return batch;
}

// Samples rollouts of T steps from one vector of environments.
class Sampler {
 public:
  Sampler(const RunConfig& config, Policy& policy, std::unique_ptr<Env> env, uint64_t seed)
      : config_(config),
        policy_(policy),
        env_(std::move(env)),
        seed_(seed),
        step_(EnvStep::allocate(env_->spec(), env_->rows())) {
    env_->reset(seed, 0, step_);
    episode_return_.resize(env_->rows());
  }

  const std::vector<double>& finished_returns() const { return finished_; }

  RolloutPtr collect(int64_t steps, bool deterministic = false) {
    const int64_t rows = env_->rows();
    const ActionSpec& action = env_->spec().action;
    auto rollout = std::make_shared<Rollout>();
    for (const ArraySpec& spec : env_->spec().observations)
      rollout->observations.set(spec.name, Array(spec.dtype, spec.shape.prepended(rows).prepended(steps)));
    if (action.masked) rollout->action_mask = Array(DType::u8, {steps, rows, action.mask_size()});
    rollout->actions = Array(action.dtype(), action.shape().prepended(rows).prepended(steps));
    rollout->log_probs = Array(DType::f32, {steps, rows, action.decisions()});
    for (Array* array :
         {&rollout->values, &rollout->next_values, &rollout->rewards, &rollout->advantages, &rollout->returns})
      *array = Array(DType::f32, {steps, rows});
    for (Array* array : {&rollout->terminated, &rollout->truncated, &rollout->valid})
      *array = Array(DType::u8, {steps, rows});
    ActInput input;
    input.seeds = Array(DType::i64, {rows});
    input.deterministic = Array(DType::u8, {rows});
    if (deterministic) std::ranges::fill(input.deterministic.mutable_view<uint8_t>(), 1);
    for (int64_t t = 0; t < steps; ++t) {
      for (const auto& [name, array] : step_.observations) put(rollout->observations.at(name), t, array);
      if (action.masked) put(rollout->action_mask, t, step_.action_mask);
      for (int64_t i = 0; i < rows; ++i)
        input.seeds.mutable_view<int64_t>()[i] = static_cast<int64_t>(derive_key(seed_, "action", i, decisions_));
      ++decisions_;
      input.observations = step_.observations;
      input.action_mask = step_.action_mask;
      const ActOutput output = policy_.act(input);
      put(rollout->actions, t, output.actions);
      put(rollout->log_probs, t, output.log_probs);
      put(rollout->values, t, output.values);
      if (t > 0) put(rollout->next_values, t - 1, output.values);
      env_->step(output.actions, step_);
      put(rollout->rewards, t, step_.rewards);
      put(rollout->terminated, t, step_.terminated);
      put(rollout->truncated, t, step_.truncated);
      note_episodes();
      const bool cut = std::ranges::any_of(step_.truncated.view<uint8_t>(), [](uint8_t x) { return x != 0; });
      if (cut) {
        const Array finals = policy_.values(step_.final_observations);
        for (int64_t i = 0; i < rows; ++i)
          if (step_.truncated.view<uint8_t>()[i]) cut_values_.push_back({t * rows + i, finals.view<float>()[i]});
      }
    }
    const Array last = policy_.values(step_.observations);
    put(rollout->next_values, steps - 1, last);
    for (auto [at, value] : cut_values_) rollout->next_values.mutable_view<float>()[at] = value;
    cut_values_.clear();
    rollout->last_observations = copy(step_.observations);
    std::ranges::fill(rollout->valid.mutable_view<uint8_t>(), 1);
    rollout->samples = static_cast<uint64_t>(steps * rows);
    GaeInput gae_input;
    gae_input.steps = steps;
    gae_input.sequences = rows;
    gae_input.rewards = rollout->rewards.view<float>();
    gae_input.values = rollout->values.view<float>();
    gae_input.next_values = rollout->next_values.view<float>();
    gae_input.terminated = rollout->terminated.view<uint8_t>();
    gae_input.truncated = rollout->truncated.view<uint8_t>();
    gae_input.gamma = static_cast<float>(config_.algorithm.gamma);
    gae_input.lambda = static_cast<float>(config_.algorithm.lambda);
    gae(gae_input, rollout->advantages.mutable_view<float>(), rollout->returns.mutable_view<float>());
    return rollout;
  }

 private:
  static void put(Array& target, int64_t t, const Array& row) {
    Array slot = target.at(t);
    std::copy_n(row.data(), row.bytes(), slot.mutable_data());
  }
  static Arrays copy(const Arrays& arrays) {
    Arrays result;
    for (const auto& [name, array] : arrays) result.set(name, array.clone());
    return result;
  }
  void note_episodes() {
    for (int64_t i = 0; i < env_->rows(); ++i) {
      episode_return_[i] += step_.rewards.view<float>()[i];
      if (!step_.terminated.view<uint8_t>()[i] && !step_.truncated.view<uint8_t>()[i]) continue;
      finished_.push_back(episode_return_[i]);
      episode_return_[i] = 0;
    }
  }

  RunConfig config_;
  Policy& policy_;
  std::unique_ptr<Env> env_;
  uint64_t seed_;
  EnvStep step_;
  uint64_t decisions_ = 0;
  std::vector<double> episode_return_, finished_;
  std::vector<std::pair<int64_t, float>> cut_values_;
};

}  // namespace troupe::test
