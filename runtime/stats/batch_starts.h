#pragma once
// Why most batches of requests of the last minute started, for the verdict on what limits a run. Pure functions of
// plain data; any thread.

#include <cstdint>

#include "runtime/stats/snapshot.h"

namespace troupe {

inline uint64_t batches_of(const RecentFigures& r) {
  return r.batches_full + r.batches_timeout + r.batches_all_waiting;
}

inline bool most_start_full(const RecentFigures& r) { return 2 * r.batches_full > batches_of(r); }
inline bool most_start_at_timeout(const RecentFigures& r) { return 2 * r.batches_timeout > batches_of(r); }

// Most batches of environments start only when every group waits for its actions.
inline bool groups_take_no_turns(const StatsSnapshot& s) {
  return !s.words->tokens && 2 * s.recent.batches_all_waiting > batches_of(s.recent);
}

}  // namespace troupe
