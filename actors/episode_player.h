#pragma once
// EpisodePlayer: plays a number of episodes with the most likely actions of one policy and sums them up. Every row
// plays its share of the episodes, so that short episodes are not over-represented. Plain logic, one thread: the
// evaluator actor steps it in slices, `troupe eval` in a loop.

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

  // What to do about the observations in `step`: [N, K, A]. Call once after a reset and after every step.
  Array next(Policy& policy, const EnvSpec& spec, const EnvStep& step);

 private:
  RecurrentState recurrent_;
  bool begun_ = false;
};

// Environments keep failing, so the episodes asked for never come to an end.
class EnvironmentFailed : public std::runtime_error {
 public:
  EnvironmentFailed(uint64_t failures, const std::string& last_error);
};

// Failures after which playing gives up.
inline constexpr uint64_t kMaxPlayFailures = 1000;

struct EpisodeSummary {
  uint64_t episodes = 0;
  // Unknown while no episode is over.
  double return_mean = kUnknown;  // unscaled returns; population standard deviation
  double return_std = kUnknown;
  double return_min = kUnknown;
  double return_max = kUnknown;
  double length_mean = kUnknown;   // environment steps
  double success_rate = kUnknown;  // unknown also where the environment does not report success
};

class EpisodePlayer {
 public:
  // Resets `env`, whose rows must be at most `episodes`. Every random number of the environments comes from `seed`.
  // `state_size` as in Recurrence.
  EpisodePlayer(std::unique_ptr<Env> env, uint64_t seed, int64_t episodes, int64_t state_size = 0);

  // One step of every row. Throws what the policy throws, and EnvironmentFailed after more than kMaxPlayFailures.
  void step(Policy& policy);
  bool complete() const { return returns_.size() >= episodes_; }
  // Of the episodes that are over.
  EpisodeSummary summary() const;

 private:
  void note_row(size_t row);

  std::unique_ptr<Env> env_;
  EnvStep step_;
  LikelyActions actions_;
  size_t episodes_;
  std::vector<int64_t> share_, done_;  // episodes per row: to play, and played
  std::vector<double> row_return_;     // of the episodes under way
  std::vector<int64_t> row_length_;
  std::vector<double> returns_;  // of those that are over
  int64_t steps_ = 0;
  uint64_t successes_ = 0;
  uint64_t failures_ = 0;  // since an episode was over, of rows that have episodes to play
  std::string last_error_;
};

}  // namespace troupe
