#pragma once
// EpisodePlayer: plays a number of episodes with the most likely actions of one policy and sums them up. Every row plays its
// share of the episodes, so that short episodes are not over-represented. Plain logic, one thread: the evaluator actor steps it
// in slices, `troupe eval` in a loop.

#include <cstdint>
#include <memory>
#include <vector>

#include "envs/env.h"
#include "models/policy.h"

namespace troupe {

// The most likely actions for what `step` says to act on next: [N, K, A].
Array likely_actions(Policy& policy, const EnvSpec& spec, const EnvStep& step);

struct EpisodeSummary {
  uint64_t episodes = 0;
  double return_mean = 0;  // unscaled returns; population standard deviation
  double return_std = 0;
  double return_min = 0;
  double return_max = 0;
  double length_mean = 0;  // environment steps
  double success_rate = 0;
};

class EpisodePlayer {
 public:
  // Resets `env`, whose rows must be at most `episodes`. Every random number of the environments comes from `seed`.
  EpisodePlayer(std::unique_ptr<Env> env, uint64_t seed, int64_t episodes);

  // One step of every row. Throws what the policy throws, and InvariantError when environments keep failing.
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
  uint64_t failures_ = 0;
};

}  // namespace troupe
