#include "actors/experience/grid/rollout_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "algorithms/advantages/gae.h"
#include "algorithms/choice/algorithm_choice.h"
#include "models/experience/episode_tasks.h"

namespace troupe {

namespace {

void copy_into(Array destination, const Array& source) {
  TROUPE_CHECK(destination.dtype() == source.dtype() && destination.bytes() == source.bytes(),
               destination.shape().text(), source.shape().text());
  std::memcpy(destination.mutable_data(), source.data(), source.bytes());
}

}  // namespace

RolloutWriter::RolloutWriter(const EnvSpec& spec, int64_t steps, int64_t rows, const Recurrence& recurrence)
    : steps_(steps), rows_(rows), sequence_(recurrence.sequence), tasks_(spec.tasks) {
  const Shape shape{steps, rows};
  for (const ArraySpec& observation : spec.observations)
    grid().observations.set(observation.name,
                            Array(observation.dtype, observation.shape.prepended(rows).prepended(steps)));
  if (spec.action.masked) grid().action_mask = Array(DType::u8, {steps, rows, spec.action.mask_size()});
  grid().actions = Array(spec.action.dtype(), spec.action.shape().prepended(rows).prepended(steps));
  grid().log_probs = Array(DType::f32, {steps, rows, spec.action.decisions()});
  if (spec.action.chunk > 1) grid().executed = Array(DType::i32, shape);
  for (Array* array : {&grid().values, &grid().next_values, &grid().rewards}) *array = Array(DType::f32, shape);
  for (Array* array : {&grid().terminated, &grid().truncated, &grid().valid}) *array = Array(DType::u8, shape);
  grid().version = Array(DType::i64, shape);
  if (recurrence.state_size == 0) return;
  TROUPE_CHECK(sequence_ >= 1 && steps % sequence_ == 0, steps, sequence_);
  grid().starts = Array(DType::u8, shape);
  grid().chunk_states = Array(DType::f32, {steps / sequence_, rows, recurrence.state_size});
}

Arrays RolloutWriter::observations_at(int64_t t) const {
  Arrays result;
  for (const auto& [name, array] : grid().observations) result.set(name, array.at(t));
  return result;
}

Array RolloutWriter::action_mask_at(int64_t t) const {
  return grid().action_mask.empty() ? Array() : grid().action_mask.at(t);
}

bool RolloutWriter::ended(int64_t t, int64_t n) const {
  return grid().terminated.view<uint8_t>()[index(t, n)] != 0 || grid().truncated.view<uint8_t>()[index(t, n)] != 0;
}

bool RolloutWriter::valid(int64_t t, int64_t n) const { return grid().valid.view<uint8_t>()[index(t, n)] != 0; }

void RolloutWriter::record_policy(int64_t t, const Array& actions, const Array& log_probs, const Array& values,
                                  PolicyVersion version) {
  copy_into(grid().actions.at(t), actions);
  copy_into(grid().log_probs.at(t), log_probs);
  copy_into(grid().values.at(t), values);
  const auto versions = grid().version.mutable_view<int64_t>().subspan(index(t, 0), static_cast<size_t>(rows_));
  std::fill(versions.begin(), versions.end(), static_cast<int64_t>(version.number));
  rollout_.epoch = version.epoch;
  if (t == 0) return;
  const auto value = values.view<float>();
  for (int64_t n = 0; n < rows_; ++n)
    if (valid(t - 1, n) && !ended(t - 1, n)) set_next_value(t - 1, n, value[static_cast<size_t>(n)]);
}

void RolloutWriter::record_parameters(int64_t t, const Array& parameters) {
  if (grid().policy_parameters.empty())
    grid().policy_parameters = Array(DType::f32, {steps_, rows_, parameters.dim(1)});
  copy_into(grid().policy_parameters.at(t), parameters);
}

void RolloutWriter::record_state(int64_t t, const Array& state, const Array& starts) {
  copy_into(grid().starts.at(t), starts);
  if (t % sequence_ == 0) copy_into(grid().chunk_states.at(t / sequence_), state);
}

void RolloutWriter::record_step(int64_t t, const EnvStep& step, double reward_scale, double max_abs_reward) {
  const auto rewards = grid().rewards.mutable_view<float>();
  const auto terminated = grid().terminated.mutable_view<uint8_t>();
  const auto truncated = grid().truncated.mutable_view<uint8_t>();
  const auto valid_flags = grid().valid.mutable_view<uint8_t>();
  const auto raw = step.rewards.view<float>();
  for (int64_t n = 0; n < rows_; ++n) {
    const auto row = static_cast<size_t>(n);
    const size_t i = index(t, n);
    const int32_t executed = step.executed.view<int32_t>()[row];
    if (executed == 0) {  // failed or in quarantine
      if (t > 0 && valid(t - 1, n) && !ended(t - 1, n)) truncated[index(t - 1, n)] = 1;
      continue;
    }
    float reward = raw[row] * static_cast<float>(reward_scale);
    if (max_abs_reward > 0)
      reward = std::clamp(reward, -static_cast<float>(max_abs_reward), static_cast<float>(max_abs_reward));
    rewards[i] = reward;
    terminated[i] = step.terminated.view<uint8_t>()[row];
    truncated[i] = step.truncated.view<uint8_t>()[row];
    valid_flags[i] = 1;
    if (!grid().executed.empty()) grid().executed.mutable_view<int32_t>()[i] = executed;
    ++rollout_.samples;
    rollout_.env_steps += static_cast<uint64_t>(executed);
  }
}

void RolloutWriter::keep_tasks(int64_t t, std::span<const int32_t> tasks) {
  if (grid().task.empty()) grid().task = Array(DType::i32, {steps_, rows_});
  std::ranges::copy(tasks, grid().task.mutable_view<int32_t>().begin() + static_cast<int64_t>(index(t, 0)));
}

void RolloutWriter::set_next_value(int64_t t, int64_t n, float value) {
  grid().next_values.mutable_view<float>()[index(t, n)] = value;
}

void RolloutWriter::set_last_values(const Array& values) {
  const auto value = values.view<float>();
  for (int64_t n = 0; n < rows_; ++n)
    if (valid(steps_ - 1, n) && !ended(steps_ - 1, n)) set_next_value(steps_ - 1, n, value[static_cast<size_t>(n)]);
}

void RolloutWriter::keep_final(int64_t t, int64_t n, const Arrays& final_observations) {
  Arrays row;
  for (const auto& [name, array] : final_observations) row.set(name, array.slice(n, n + 1).clone());
  finals_.push_back(std::move(row));
  final_steps_.emplace_back(static_cast<int32_t>(t), static_cast<int32_t>(n));
}

void RolloutWriter::keep_last(const Arrays& observations) { grid().last_observations = observations; }

void RolloutWriter::add_episode(float episode_return, int32_t length, bool success, int32_t task) {
  episode_returns_.push_back(episode_return);
  episode_lengths_.push_back(length);
  episode_success_.push_back(success ? 1 : 0);
  if (tasks_.empty()) return;
  const auto number = static_cast<size_t>(task);  // of an environment in C it may be any number
  episode_tasks_.push_back(number < tasks_.size() ? tasks_[number] : "");
}

Episodes RolloutWriter::episodes() const {
  const auto count = static_cast<int64_t>(episode_returns_.size());
  if (count == 0) return {};
  Episodes result = {Array::of<float>({count}, episode_returns_), Array::of<int32_t>({count}, episode_lengths_),
                     Array::of<uint8_t>({count}, episode_success_)};
  if (!tasks_.empty()) add_tasks(result, episode_tasks_);
  return result;
}

// Computes the advantages and value targets that the algorithm takes from the worker.
void RolloutWriter::estimate(const AlgorithmConfig& algorithm) {
  const RolloutExtras extras = rollout_extras(algorithm);
  if (!extras.returns) return;
  Grid& r = grid();
  const GaeInput in = {.steps = steps_,
                       .sequences = rows_,
                       .rewards = r.rewards.view<float>(),
                       .values = r.values.view<float>(),
                       .next_values = r.next_values.view<float>(),
                       .terminated = r.terminated.view<uint8_t>(),
                       .truncated = r.truncated.view<uint8_t>(),
                       .valid = r.valid.view<uint8_t>(),
                       .gamma = static_cast<float>(algorithm.gamma),
                       .lambda = static_cast<float>(algorithm.lambda),
                       .bootstrap_on_truncation = algorithm.bootstrap_on_truncation};
  r.returns = Array::uninitialized(DType::f32, {steps_, rows_});
  if (!extras.advantages) return lambda_returns(in, r.returns.mutable_view<float>());
  r.advantages = Array::uninitialized(DType::f32, {steps_, rows_});
  gae(in, r.advantages.mutable_view<float>(), r.returns.mutable_view<float>());
}

RolloutPtr RolloutWriter::close(const AlgorithmConfig& algorithm, uint64_t worker, uint64_t sequence, uint32_t group) {
  Rollout& r = rollout_;
  r.worker = worker;
  r.group = group;
  r.episodes = episodes();
  r.sequence = sequence;
  Grid& steps = grid();
  const auto versions = steps.version.view<int64_t>();
  r.oldest = std::numeric_limits<uint64_t>::max();
  r.newest = 0;
  for (int64_t t = 0; t < steps_; ++t)
    for (int64_t n = 0; n < rows_; ++n) {
      if (!valid(t, n)) continue;
      const auto version = static_cast<uint64_t>(versions[index(t, n)]);
      r.oldest = std::min(r.oldest, version);
      r.newest = std::max(r.newest, version);
    }
  if (r.samples == 0) r.oldest = 0;
  estimate(algorithm);
  if (!finals_.empty()) {
    const auto count = static_cast<int64_t>(finals_.size());
    steps.final_steps = Array(DType::i32, {count, 2});
    for (int64_t i = 0; i < count; ++i) {
      steps.final_steps.mutable_view<int32_t>()[static_cast<size_t>(2 * i)] =
          final_steps_[static_cast<size_t>(i)].first;
      steps.final_steps.mutable_view<int32_t>()[static_cast<size_t>(2 * i + 1)] =
          final_steps_[static_cast<size_t>(i)].second;
    }
    for (const auto& [name, first] : finals_.front()) {
      Array all = Array::uninitialized(first.dtype(), first.shape().without_first().prepended(count));
      for (int64_t i = 0; i < count; ++i) copy_into(all.slice(i, i + 1), finals_[static_cast<size_t>(i)].at(name));
      steps.final_observations.set(name, all);
    }
  }
  return std::make_shared<const Rollout>(std::move(rollout_));
}

}  // namespace troupe
