#pragma once
// The maximum number of samples in replay. Pure; any thread.

#include <algorithm>
#include <cstdint>

#include "actors/config/replay_config.h"

namespace troupe {

// Limit of the default capacity, in super-batches: a large lag cap does not make it larger.
constexpr int64_t kMostSuperBatches = 16;

// replay.capacity, or the default if it is 0.
inline uint64_t replay_capacity(const ReplayConfig& config, uint64_t super_batch) {
  if (config.capacity > 0) return static_cast<uint64_t>(config.capacity);
  return static_cast<uint64_t>(std::min(config.max_policy_lag + 2, kMostSuperBatches)) * super_batch;
}

}  // namespace troupe
