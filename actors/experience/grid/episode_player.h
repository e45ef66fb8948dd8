#pragma once
// EpisodePlayer: plays a given number of episodes with the most likely actions of a policy and computes statistics.
// Each episode has its own random stream and counts, whenever it ends, so that short episodes are not
// over-represented. One whose environment fails is played again from its beginning. If it fails again and again, it
// counts as failed: no other episode takes its place, which would probably be a shorter one. Plain logic, one thread:
// the evaluator actor runs a few steps at a time, `troupe eval` runs it in a loop.

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/experience/common/evaluation_player.h"
#include "actors/experience/grid/recurrent_state.h"
#include "envs/env.h"
#include "models/policy.h"

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

// "the environment failed 3 times, the last time with: TEXT".
std::string environment_failed_text(uint64_t failures, const std::string& last_error);

// Thrown when the environment has failed again and again and no episode was played to its end.
class EnvironmentFailed : public std::runtime_error {
 public:
  EnvironmentFailed(uint64_t failures, const std::string& last_error);
};

// Failures after which playing gives up if no episode has ended, or four for each row where that is more. Where all
// rows have to begin together, only those of episodes that are played alone: others may be taken along by their
// neighbours.
inline constexpr uint64_t kMaxPlayFailures = 200;

class EpisodePlayer {
 public:
  // `env` has not been reset; its rows are worlds of `rows_per_world` rows (see rows_per_world() in
  // envs/make/make_env.h). Episode number e has the random stream of row e after a reset with `seed`, so it is the same
  // for any number of rows. `state_size` as in Recurrence.
  EpisodePlayer(std::unique_ptr<Env> env, uint64_t seed, int64_t episodes, int64_t state_size = 0,
                int64_t rows_per_world = 1);

  // One step of every row. A row whose episode has ended begins the next one, or, if the environment cannot begin
  // episodes singly (Env::play_singly), waits until those of all rows have ended. Throws what the policy throws, and
  // EnvironmentFailed.
  void step(Policy& policy);
  bool complete() const { return returns_.size() + failed_ >= episodes_; }
  // Statistics of the episodes that have ended.
  EpisodeSummary summary() const;

 private:
  struct Row {
    bool plays = false;     // an episode that counts and has not ended
    bool observes = false;  // it has begun: its observation is known
    uint64_t episode = 0;
    double reward = 0;  // of this episode
    int64_t length = 0;
  };
  struct Failure {
    uint64_t episode;
    int64_t length;
  };

  uint64_t worlds() const { return rows_.size() / rows_per_world_; }
  bool has_next() const { return begun_ < episodes_ || !again_.empty(); }
  uint64_t next() const { return begun_ < episodes_ ? begun_ : again_.front(); }
  bool plays(uint64_t world) const;
  void take_world(uint64_t world);
  void begin_worlds();
  void begin_all();
  void reset_all(uint64_t first);
  void repeat_actions(Array& actions) const;
  void note_row(size_t row);
  void leave_world(uint64_t world);
  void end_step();
  void play_again();
  bool fails_for_good(const Failure& failure);

  std::unique_ptr<Env> env_;
  uint64_t seed_, episodes_, rows_per_world_;
  int64_t state_size_;
  EnvStep step_;
  LikelyActions actions_;
  bool singly_;
  std::vector<Row> rows_;
  // [N] of rows that begin together: the row whose episode and actions each one repeats, or itself. Empty if none does.
  std::vector<size_t> repeats_;
  uint64_t playing_ = 0;         // rows
  uint64_t playing_worlds_ = 0;  // worlds with such a row
  uint64_t begun_ = 0;           // episodes that were begun at least once
  // Episodes that have failed are played again when all others have ended, a quarter as many worlds at a time: an
  // episode that ends the process which others share is alone at last, and the others end without it.
  uint64_t most_worlds_ = 1;
  std::vector<Failure> failures_;
  std::deque<uint64_t> again_;  // those that are played again now, ascending
  // Of the episodes that have failed while they were played alone: how often, and after how many steps the last time.
  struct Alone {
    int times = 0, same = 0;  // `same`: in a row after so many steps
    int64_t length = -1;
  };
  std::map<uint64_t, Alone> alone_;
  std::map<uint64_t, double> returns_;  // of the episodes that have ended, by their numbers
  // Of the same, in the order in which they ended: summary() is asked for often while they are played.
  double mean_so_far_ = 0, squares_so_far_ = 0;
  double least_ = std::numeric_limits<double>::infinity(), most_ = -least_;
  int64_t steps_ = 0;
  uint64_t successes_ = 0, failed_ = 0;
  uint64_t all_failures_ = 0;  // also of episodes that ended when they were played again
  uint64_t own_failures_ = 0;  // of these, those that count for kMaxPlayFailures
  std::string last_error_;
};

}  // namespace troupe
