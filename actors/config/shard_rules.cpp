#include "actors/config/shard_rules.h"

#include <string>

#include "actors/config/kind_settings.h"
#include "runtime/config/setting_rules.h"

namespace troupe {

void check_shards(const RunConfig& config) {
  const int64_t shards = config.trainer.shards;
  if (config.trainer.ranks > shards)
    refuse_setting("trainer.ranks", config.trainer.ranks,
                   "need a shard each, and trainer.shards is " + setting_text(shards) +
                       "; use at most that, or more shards from the start of the run");
  if (shards == 1) return;
  if (config.algorithm.policy_filtration != "none")
    refuse_setting("algorithm.policy_filtration", config.algorithm.policy_filtration,
                   "draws among all answers of an update, and trainer.shards is " + setting_text(shards) +
                       "; use trainer.shards 1, or \"none\"");
  // In the message: what gives each shard whole parts of this size.
  const auto divides = [&](const std::string& path, int64_t value, int64_t part) {
    if (value % shards != 0)
      refuse_setting(path, value,
                     "cannot be divided among trainer.shards " + setting_text(shards) + "; use a multiple, like " +
                         setting_text((value + shards * part - 1) / (shards * part) * (shards * part)));
  };
  divides("trainer.super_batch", config.trainer.super_batch,
          static_cast<int64_t>(settings_of_kind(config).samples_per_rollout(config)));
  divides("replay.capacity", config.replay.capacity, 1);
  if (config.workers.count > 0 && config.workers.count < shards)
    refuse_setting("trainer.shards", shards,
                   "need a worker each, and workers.count is " + setting_text(config.workers.count) +
                       "; use at most that, or more workers");
}

RunConfig config_of_shard(RunConfig config) {
  config.trainer.super_batch /= config.trainer.shards;
  config.replay.capacity /= config.trainer.shards;
  config.workers.count /= config.trainer.shards;
  config.trainer.shards = 1;
  return config;
}

}  // namespace troupe
