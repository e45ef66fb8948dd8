#pragma once
// EpisodePlayer: plays a given number of episodes with the most likely actions of a policy and computes statistics.
// Every row plays the same share of the episodes, so that short episodes are not over-represented. Plain logic, one
// thread: the evaluator actor runs a few steps at a time, `troupe eval` runs it in a loop.

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/recurrent_state.h"
#include "envs/env.h"
#include "models/policy.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

// Acts on some rows with the most likely actions, and keeps their recurrent state.
class LikelyActions {
 public:
  // `state_size` as in Recurrence.
  LikelyActions(int64_t state_size, int64_t rows) : recurrent_(state_size, rows) {}

  // Returns the actions [N, K, A] for the observations in `step`. Call once after a reset and after every step.
  Array next(Policy& policy, const EnvSpec& spec, const EnvStep& step);

 private:
  RecurrentState recurrent_;
  bool begun_ = false;
};

// Thrown when environments keep failing, so that the requested episodes cannot be completed.
class EnvironmentFailed : public std::runtime_error {
 public:
  EnvironmentFailed(uint64_t failures, const std::string& last_error);
};

// Failures after which playing gives up.
inline constexpr uint64_t kMaxPlayFailures = 1000;

struct EpisodeSummary {
  uint64_t episodes = 0;
  // kUnknown until an episode has ended.
  double return_mean = kUnknown;  // unscaled returns; population standard deviation
  double return_std = kUnknown;
  double return_min = kUnknown;
  double return_max = kUnknown;
  double length_mean = kUnknown;   // environment steps
  double success_rate = kUnknown;  // also kUnknown if the environment does not report success
};

class EpisodePlayer {
 public:
  // Resets `env`. If it has more rows than `episodes`, only the first ones count. `seed` seeds all environments.
  // `state_size` as in Recurrence.
  EpisodePlayer(std::unique_ptr<Env> env, uint64_t seed, int64_t episodes, int64_t state_size = 0);

  // One step of every row. Throws what the policy throws, and EnvironmentFailed after more than kMaxPlayFailures.
  void step(Policy& policy);
  bool complete() const { return returns_.size() >= episodes_; }
  // Statistics of the episodes that have ended.
  EpisodeSummary summary() const;

 private:
  void note_row(size_t row);

  std::unique_ptr<Env> env_;
  EnvStep step_;
  LikelyActions actions_;
  size_t episodes_;
  std::vector<int64_t> share_, done_;  // episodes per row: to play, and played
  std::vector<double> row_return_;     // of the current episodes
  std::vector<int64_t> row_length_;
  std::vector<double> returns_;  // of the episodes that have ended
  int64_t steps_ = 0;
  uint64_t successes_ = 0;
  uint64_t failures_ = 0;  // since the last episode ended, of rows with episodes left to play
  std::string last_error_;
};

}  // namespace troupe
