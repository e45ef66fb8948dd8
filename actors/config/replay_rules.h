#pragma once
// What the settings of replay mean for a run, read once. Pure; any thread.

#include <algorithm>
#include <cstdint>

#include "actors/config/run_config.h"
#include "models/experience/rollout.h"

namespace troupe {

struct ReplayRules {
  uint64_t super_batch = 0;
  uint64_t capacity = 0;  // samples
  uint64_t max_policy_lag = 0;
  uint64_t max_reuse = 0;       // where samples are reused
  bool reuse = false;           // replay.mode "reuse", else "consume_once"
  bool waits_for_late = false;  // see waits_for_late()
  bool masks_late = false;      // see masks_late()
  bool filter_groups = false;
  UnitKind unit = UnitKind::column;

  // The smallest number of a version whose tokens the update with this index trains on, where others are masked; else
  // 0.
  uint64_t least_version(uint64_t index) const { return masks_late ? index - std::min(index, max_policy_lag) : 0; }
};

// Of each shard (trainer.shards).
ReplayRules replay_rules(const RunConfig& config);

}  // namespace troupe
