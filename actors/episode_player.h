#pragma once
// EpisodePlayer: plays a number of episodes with the most likely actions of one policy and sums them up. Every row plays its
// share of the episodes, so that short episodes are not over-represented. Plain logic, one thread: the evaluator actor steps it
// in slices, `troupe eval` in a loop.

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "envs/env.h"
#include "models/policy.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

// The most likely actions for what `step` says to act on next: [N, K, A].
Array likely_actions(Policy& policy, const EnvSpec& spec, const EnvStep& step);

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
  EpisodePlayer(std::unique_ptr<Env> env, uint64_t seed, int64_t episodes);

  // One step of every row. Throws what the policy throws, and EnvironmentFailed after more than kMaxPlayFailures.
  void step(Policy& policy);
  bool complete() const { return returns_.size() >= episodes_; }
  // Of the episodes that are over.
  EpisodeSummary summary() const;

 private:
  void note_row(size_t row);

  std::unique_ptr<Env> env_;
  EnvStep step_;
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
