#pragma once
// RecentCounts: makes the RecentFigures of snapshots. Owned by stats; one thread.

#include <chrono>
#include <deque>

#include "actors/messages.h"
#include "actors/rate.h"
#include "actors/replay_buffer.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

class RecentCounts {
 public:
  using Clock = Rate::Clock;

  // What the run has counted before is not recent.
  RecentCounts(const ReplayStart& start, Clock::time_point now);
  void add(const UpdateMessage& update, Clock::time_point now);
  // Call it when the counts of the snapshot are complete. `env_failures` is their total.
  RecentFigures take(const StatsSnapshot& snapshot, uint64_t env_failures, Clock::time_point now);

 private:
  struct Update {
    Clock::time_point end;
    double wait_seconds = 0, evaluation_wait_seconds = 0, checkpoint_wait_seconds = 0, update_seconds = 0;
  };

  Rate produced_, dropped_stale_, dropped_full_, filtered_, env_failures_, batches_full_, batches_timeout_,
      batches_all_waiting_;
  std::deque<Update> updates_;  // of the last 10 s, and at least the last 10
};

}  // namespace troupe
