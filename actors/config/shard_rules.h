#pragma once
// What must hold of a run with several shards (trainer.shards). Pure; any thread.

#include "actors/config/run_config.h"

namespace troupe {

// Throws ConfigError naming the setting that does not fit.
void check_shards(const RunConfig& config);
// The settings of a run that has the samples and workers of one of its shards.
RunConfig config_of_shard(RunConfig config);

}  // namespace troupe
