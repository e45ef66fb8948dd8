#include "actors/config/replay_rules.h"

#include "actors/config/kind_settings.h"
#include "actors/config/replay_capacity.h"

namespace troupe {

ReplayRules replay_rules(const RunConfig& config) {
  const ReplayConfig& replay = config.replay;
  const auto shards = static_cast<uint64_t>(config.trainer.shards);
  const auto super_batch = static_cast<uint64_t>(config.trainer.super_batch) / shards;
  return {.super_batch = super_batch,
          .capacity = replay_capacity(replay, super_batch * shards) / shards,
          .max_policy_lag = static_cast<uint64_t>(replay.max_policy_lag),
          .max_reuse = static_cast<uint64_t>(replay.max_reuse),
          .reuse = replay.mode == "reuse",
          .waits_for_late = waits_for_late(config),
          .masks_late = masks_late(config),
          .filter_groups = replay.filter_groups,
          .unit = settings_of_kind(config).unit(config)};
}

}  // namespace troupe
