#pragma once
// RolloutWriter: a rollout while it is being written, step by step. close() finishes it, with GAE where the algorithm
// takes that from rollouts. Plain logic, one thread. The environment writes its observations straight into
// observations_at(t); those bytes are sent to the inference actor and never written again.

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/config/run_config.h"
#include "envs/env.h"
#include "models/experience/rollout.h"
#include "models/learning/recurrence.h"

namespace troupe {

class RolloutWriter {
 public:
  // Room for `steps` decisions of `rows` sub-environments.
  RolloutWriter(const EnvSpec& spec, int64_t steps, int64_t rows, const Recurrence& recurrence = {});

  int64_t steps() const { return steps_; }
  int64_t rows() const { return rows_; }

  // Views of step t for the environment to write and the inference request to carry: each [N, ...].
  Arrays observations_at(int64_t t) const;
  Array action_mask_at(int64_t t) const;

  // Stores the policy's output at step t. It also holds the next values of rows whose episode continued after t - 1.
  void record_policy(int64_t t, const Array& actions, const Array& log_probs, const Array& values,
                     PolicyVersion version);
  // [N, P] of the policy at step t, where rollouts carry them.
  void record_parameters(int64_t t, const Array& parameters);
  // With a recurrent model: the state [N, S] and starts [N] that the request for step t carried.
  void record_state(int64_t t, const Array& state, const Array& starts);
  // Stores the environment's result of step t. The step of a row that failed is invalid, and the row's segment ends
  // before it.
  void record_step(int64_t t, const EnvStep& step, double reward_scale, double max_abs_reward);
  // The tasks [N] of the episodes that step t belongs to.
  void keep_tasks(int64_t t, std::span<const int32_t> tasks);
  // V of the real next observation of step t in row n.
  void set_next_value(int64_t t, int64_t n, float value);
  // Values of the observations after the last step, for the rows whose episode continues: [N].
  void set_last_values(const Array& values);
  // For estimators that recompute values: keep the final observation of row n at step t; the observations after the
  // end.
  void keep_final(int64_t t, int64_t n, const Arrays& final_observations);
  void keep_last(const Arrays& observations);

  bool ended(int64_t t, int64_t n) const;
  bool valid(int64_t t, int64_t n) const;
  // Number of valid steps so far.
  uint64_t samples() const { return rollout_.samples; }
  // Environment steps that these took (several for a chunk of actions).
  uint64_t env_steps() const { return rollout_.env_steps; }
  // Adds an episode whose last step is in this rollout. `task`: its number among those of the environment, if this has
  // some.
  void add_episode(float episode_return, int32_t length, bool success, int32_t task = 0);
  Episodes episodes() const;

  // Returns the finished rollout, with the advantages and returns that the worker computes for the algorithm. The
  // writer is empty afterwards.
  RolloutPtr close(const AlgorithmConfig& algorithm, uint64_t worker, uint64_t sequence, uint32_t group = 0);

 private:
  void estimate(const AlgorithmConfig& algorithm);
  Grid& grid() { return rollout_.grid(); }
  const Grid& grid() const { return rollout_.grid(); }
  size_t index(int64_t t, int64_t n) const { return static_cast<size_t>(t * rows_ + n); }

  int64_t steps_;
  int64_t rows_;
  int64_t sequence_;  // steps from one recorded state to the next; 0 = the model has none
  Rollout rollout_;
  std::vector<std::pair<int32_t, int32_t>> final_steps_;
  std::vector<Arrays> finals_;
  std::vector<float> episode_returns_;
  std::vector<int32_t> episode_lengths_;
  std::vector<uint8_t> episode_success_;
  std::vector<std::string> tasks_, episode_tasks_;  // names: of the environment's, and of each episode
};

}  // namespace troupe
