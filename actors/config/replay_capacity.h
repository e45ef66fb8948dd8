#pragma once
// How many samples replay holds at most. Pure; any thread.

#include <algorithm>
#include <cstdint>

#include "actors/config/replay_config.h"

namespace troupe {

// Where the capacity is not given. A larger lag bound is a limit that samples need not come near.
constexpr int64_t kMostSuperBatches = 16;

// replay.capacity, or what stands for its 0.
inline uint64_t replay_capacity(const ReplayConfig& config, uint64_t super_batch) {
  if (config.capacity > 0) return static_cast<uint64_t>(config.capacity);
  return static_cast<uint64_t>(std::min(config.max_policy_lag + 2, kMostSuperBatches)) * super_batch;
}

}  // namespace troupe
