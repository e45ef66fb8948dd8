#pragma once
// Environment -> policy -> rollout -> GAE -> learner in one thread and without actors: the simplest training loop.

#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "actors/config/run_config.h"
#include "algorithms/advantages/gae.h"
#include "envs/make/make_env.h"
#include "models/learning/recurrence.h"
#include "models/torch/compute.h"
#include "models/torch/learning/make_model.h"
#include "runtime/base/rng.h"

namespace troupe::test {

inline SuperBatch whole(RolloutPtr rollout) {
  SuperBatch batch;
  batch.samples = rollout->samples;
  std::vector<int32_t> columns(rollout->grid().columns());
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
        step_(EnvStep::allocate(env_->spec(), env_->rows())),
        recurrence_(recurrence_of(config, env_->spec())) {
    env_->reset(seed, 0, step_);
    episode_return_.resize(env_->rows());
    if (recurrence_.state_size == 0) return;
    state_ = Array(DType::f32, {env_->rows(), recurrence_.state_size});
    starts_ = Array(DType::u8, {env_->rows()});
    std::ranges::fill(starts_.mutable_view<uint8_t>(), 1);
  }

  const std::vector<double>& finished_returns() const { return finished_; }

  RolloutPtr collect(int64_t steps, bool deterministic = false) {
    const int64_t rows = env_->rows();
    const ActionSpec& action = env_->spec().action;
    auto rollout = std::make_shared<Rollout>();
    for (const ArraySpec& spec : env_->spec().observations)
      rollout->grid().observations.set(spec.name, Array(spec.dtype, spec.shape.prepended(rows).prepended(steps)));
    if (action.masked) rollout->grid().action_mask = Array(DType::u8, {steps, rows, action.mask_size()});
    rollout->grid().actions = Array(action.dtype(), action.shape().prepended(rows).prepended(steps));
    rollout->grid().log_probs = Array(DType::f32, {steps, rows, action.decisions()});
    for (Array* array : {&rollout->grid().values, &rollout->grid().next_values, &rollout->grid().rewards,
                         &rollout->grid().advantages, &rollout->grid().returns})
      *array = Array(DType::f32, {steps, rows});
    for (Array* array : {&rollout->grid().terminated, &rollout->grid().truncated, &rollout->grid().valid})
      *array = Array(DType::u8, {steps, rows});
    if (recurrence_.state_size > 0) {
      rollout->grid().starts = Array(DType::u8, {steps, rows});
      rollout->grid().chunk_states = Array(DType::f32, {steps / recurrence_.sequence, rows, recurrence_.state_size});
    }
    ActInput input;
    input.seeds = Array(DType::i64, {rows});
    input.deterministic = Array(DType::u8, {rows});
    if (deterministic) std::ranges::fill(input.deterministic.mutable_view<uint8_t>(), 1);
    for (int64_t t = 0; t < steps; ++t) {
      for (const auto& [name, array] : step_.observations) put(rollout->grid().observations.at(name), t, array);
      if (action.masked) put(rollout->grid().action_mask, t, step_.action_mask);
      for (int64_t i = 0; i < rows; ++i)
        input.seeds.mutable_view<int64_t>()[i] = static_cast<int64_t>(derive_key(seed_, "action", i, decisions_));
      ++decisions_;
      input.observations = step_.observations;
      input.action_mask = step_.action_mask;
      input.state = state_;
      input.starts = starts_;
      if (recurrence_.state_size > 0) {
        put(rollout->grid().starts, t, starts_);
        if (t % recurrence_.sequence == 0) put(rollout->grid().chunk_states, t / recurrence_.sequence, state_);
      }
      const ActOutput output = policy_.act(input);
      state_ = output.state;
      put(rollout->grid().actions, t, output.actions);
      put(rollout->grid().log_probs, t, output.log_probs);
      put(rollout->grid().values, t, output.values);
      if (t > 0) put(rollout->grid().next_values, t - 1, output.values);
      env_->step(output.actions, step_);
      put(rollout->grid().rewards, t, step_.rewards);
      put(rollout->grid().terminated, t, step_.terminated);
      put(rollout->grid().truncated, t, step_.truncated);
      note_episodes();
      note_starts();
      const bool cut = std::ranges::any_of(step_.truncated.view<uint8_t>(), [](uint8_t x) { return x != 0; });
      if (cut) {
        const Array finals = policy_.values(step_.final_observations, state_);
        for (int64_t i = 0; i < rows; ++i)
          if (step_.truncated.view<uint8_t>()[i]) cut_values_.push_back({t * rows + i, finals.view<float>()[i]});
        for (const auto& [name, array] : step_.final_observations) note_finals(name, array);
      }
    }
    write_finals(*rollout);
    const Array last = policy_.values(step_.observations, state_);
    put(rollout->grid().next_values, steps - 1, last);
    for (auto [at, value] : cut_values_) rollout->grid().next_values.mutable_view<float>()[at] = value;
    cut_values_.clear();
    rollout->grid().last_observations = copy(step_.observations);
    std::ranges::fill(rollout->grid().valid.mutable_view<uint8_t>(), 1);
    rollout->samples = static_cast<uint64_t>(steps * rows);
    GaeInput gae_input;
    gae_input.steps = steps;
    gae_input.sequences = rows;
    gae_input.rewards = rollout->grid().rewards.view<float>();
    gae_input.values = rollout->grid().values.view<float>();
    gae_input.next_values = rollout->grid().next_values.view<float>();
    gae_input.terminated = rollout->grid().terminated.view<uint8_t>();
    gae_input.truncated = rollout->grid().truncated.view<uint8_t>();
    gae_input.gamma = static_cast<float>(config_.algorithm.gamma);
    gae_input.lambda = static_cast<float>(config_.algorithm.lambda);
    gae(gae_input, rollout->grid().advantages.mutable_view<float>(), rollout->grid().returns.mutable_view<float>());
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

  // Stores the final observations of truncated rows for write_finals().
  void note_finals(const std::string& name, const Array& array) {
    for (int64_t i = 0; i < env_->rows(); ++i)
      if (step_.truncated.view<uint8_t>()[i]) finals_[name].push_back(array.at(i).clone());
  }
  void write_finals(Rollout& rollout) {
    const auto count = static_cast<int64_t>(cut_values_.size());
    if (count == 0) return;
    rollout.grid().final_steps = Array(DType::i32, {count, 2});
    for (int64_t f = 0; f < count; ++f) {
      const auto at = static_cast<int32_t>(cut_values_[f].first), rows = static_cast<int32_t>(env_->rows());
      rollout.grid().final_steps.mutable_view<int32_t>()[2 * f] = at / rows;
      rollout.grid().final_steps.mutable_view<int32_t>()[2 * f + 1] = at % rows;
    }
    for (const ArraySpec& spec : env_->spec().observations) {
      Array all(spec.dtype, spec.shape.prepended(count));
      for (int64_t f = 0; f < count; ++f) put(all, f, finals_[spec.name][f]);
      rollout.grid().final_observations.set(spec.name, std::move(all));
    }
    finals_.clear();
  }
  void note_starts() {
    if (recurrence_.state_size == 0) return;
    starts_ = Array(DType::u8, {env_->rows()});
    for (int64_t i = 0; i < env_->rows(); ++i)
      starts_.mutable_view<uint8_t>()[i] = step_.terminated.view<uint8_t>()[i] || step_.truncated.view<uint8_t>()[i];
  }

  RunConfig config_;
  Policy& policy_;
  std::unique_ptr<Env> env_;
  uint64_t seed_;
  EnvStep step_;
  Recurrence recurrence_;
  Array state_, starts_;  // only with a recurrent model
  uint64_t decisions_ = 0;
  std::vector<double> episode_return_, finished_;
  std::vector<std::pair<int64_t, float>> cut_values_;
  std::map<std::string, std::vector<Array>> finals_;
};

}  // namespace troupe::test
